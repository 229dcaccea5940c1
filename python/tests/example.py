import numpy as np, peal
with peal.job():
    x = peal.full(1000, peal.my_pe() + 1, np.float32)
    y = peal.zeros(1000, np.float32)
    peal.all_reduce(y, x, "sum")          # in the order of the current stream; on a CPU at once
    print(np.from_dlpack(y)[0])           # peal-run -n 4 python example.py
