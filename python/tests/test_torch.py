# SPDX-License-Identifier: Apache-2.0
"""peal.torch of the installed package, from outside, where torch is."""
import importlib.util
import pathlib
import re
import subprocess
import sys
import tempfile
import textwrap
import unittest

from test_package import HERE, Job, run, run_text


def why_not():
    """Why peal.torch cannot be tried here, or nothing."""
    if not importlib.util.find_spec("torch"):
        return "there is no torch"
    import torch
    old = [int(number) for number in torch.__version__.split(".")[:2]] < [2, 8]
    return f"torch {torch.__version__} is too old" if old else ""


class OldTorch(Job):
    @unittest.skipUnless("too old" in why_not(), "there is no old torch")
    def test_an_old_torch_is_refused(self):
        import torch
        self.assert_ends(run_text(1, "import peal.torch"), 1,
                         rf"ImportError: peal\.torch needs PyTorch 2\.8 or newer; .* is {re.escape(torch.__version__)}: pip install torch")


@unittest.skipIf(why_not(), why_not())
class Torch(Job):
    def test_all_pes_agree(self):
        for pes, transport in (1, "p2p"), (3, "ibgda"), (2, "p2p"):
            with self.subTest(pes=pes, transport=transport):
                job = run(pes, HERE / "with_torch.py", PEAL_TRANSPORT=transport)
                self.assert_ends(job, 0, r"\[0\] Ran \d\d tests")

    def test_processes_of_torch_meet_by_its_store(self):
        with tempfile.TemporaryDirectory() as name:
            (pathlib.Path(name) / "spawned.py").write_text(textwrap.dedent("""
                import sys, torch, torch.distributed as dist, torch.multiprocessing as mp
                import peal, peal.torch

                def main(rank, folder):
                    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=3)
                    for group in dist.new_group([2, 0]), None:  # first some, then all
                        if group is None or rank != 1:
                            peal.torch.init("cpu", group)
                            x = peal.torch.all_reduce(torch.tensor([float(rank)]), "sum", (group or dist.group.WORLD).group_name)
                            print(f"rank {rank} PE {peal.my_pe()} of {peal.n_pes()}: {x.item()}", flush=True)
                            peal.finalize()
                    dist.barrier()
                    dist.destroy_process_group()

                if __name__ == "__main__":
                    mp.spawn(main, (sys.argv[1],), nprocs=3)
                """))
            job = subprocess.run([sys.executable, "spawned.py", name], capture_output=True, text=True, timeout=300, check=False, cwd=name)
        self.assert_ends(job, 0, *(f"rank {i} PE {i} of 3: 3.0" for i in range(3)), "rank 0 PE 0 of 2: 2.0", "rank 2 PE 1 of 2: 2.0")

    def test_more_rows_than_the_capacity_are_an_error(self):
        self.assert_ends(run_text(3, """
            import torch, peal.torch
            with peal.job("cpu"):
                dispatcher, beside = peal.torch.Dispatcher(8, 4, 6, 1, torch.float32, capacity=23), peal.torch.zeros(64)
                routing = dispatcher.route(torch.arange(8).remainder(2).reshape(8, 1))
                assert routing._order.max() <= 23, routing._order
                try:
                    dispatcher.dispatch(torch.ones(8, 4), routing)
                except peal.Error as error:
                    print(int(routing.total), (beside == 0).all().item(), error)
            """, PEAL_TRANSPORT="p2p"), 0, r"\[0\] 24 True .*other arguments than other members", r"\[2\] 0 True .*other arguments")

    # Hazard: torch frees a tensor of a job that has ended at an address where the next job has one.
    def test_tensors_may_outlive_their_job(self):
        self.assert_ends(run_text(1, """
            import ctypes, peal.torch
            from peal.torch import _extension
            module = _extension.module()
            library = ctypes.CDLL(module.__file__)
            for function in library.peal_symmetric_alloc, library.peal_symmetric_free:
                function.restype, function.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
            take, give_back = library.peal_symmetric_alloc, library.peal_symmetric_free
            made = []
            assert take(1000) is None  # there is no job
            for job in range(2):
                module.begin(-1, 0)
                module.add(1 << 40, 1 << 20)  # which nobody touches
                made += [take(1000), take(1 << 19)]
                assert take(1 << 20) is None
                if job == 0:
                    module.end()
            assert made[0] == made[2] == 1 << 40 and made[1] == made[3], made
            give_back(made[0])
            assert take(1000) not in (made[0], None)
            give_back(made[2])
            assert take(1000) == made[0]
            give_back(1)  # is nobody's
            print("ended")
            """), 0, "ended")

    def test_each_job_has_memory_of_its_own(self):
        self.assert_ends(run_text(2, """
            import torch, torch.distributed as dist, torch.distributed._symmetric_memory as symm_mem
            import peal.torch
            held = []
            for job in range(3):
                with peal.job("cpu"):
                    me = peal.my_pe()
                    if job == 0:
                        dist.init_process_group("gloo", init_method=f"file:///tmp/peal-jobs-{os.getppid()}", rank=me, world_size=2)
                        symm_mem.set_backend("PEAL")
                    if job == 2:
                        peal.torch.reserve(1 << 20)
                        held.clear()
                    x = symm_mem.empty(100, dtype=torch.int64, device="cpu").fill_(me + job)
                    memory = symm_mem.rendezvous(x, dist.group.WORLD)
                    memory.barrier()
                    assert (memory.get_buffer(1 - me, (100,), torch.int64) == 1 - me + job).all()
                    memory.barrier()
                    held += [x, memory]
                    child = os.fork()
                    if child == 0:
                        try:
                            symm_mem.empty(100, dtype=torch.int64, device="cpu")
                        except peal.Error as error:
                            held.clear()
                            os._exit(3 if "forked from a PE" in str(error) else 4)
                        os._exit(5)
                    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
                try:
                    symm_mem.empty(100, dtype=torch.int64, device="cpu")
                except peal.Error as error:
                    assert "call peal.init() first" in str(error), error
            dist.destroy_process_group()
            print("ended")
            """, PEAL_TRANSPORT="p2p"), 0, r"\[0\] ended", r"\[1\] ended")

    def test_without_a_group_says_so(self):
        self.assert_ends(run_text(1, """
            import peal.torch
            try:
                peal.torch.init()
            except peal.ArgumentError as error:
                print(error)
            """), 0, "peal.torch.init: torch.distributed is not initialised; call init_process_group")


if __name__ == "__main__":
    unittest.main()
