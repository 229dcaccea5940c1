// SPDX-License-Identifier: Apache-2.0
#include "host/windows/registered_part.h"

#include "host/transport/ibgda.h"

namespace peal {

RegisteredPart register_part(const Rails* rails, const std::shared_ptr<Gpu>& gpu,
                             std::byte* address, size_t bytes, bool words) {
  RegisteredPart part;
  if (rails == nullptr || bytes == 0) return part;
  const nic::Memory memory = memory_of(gpu, address, bytes);
  for (size_t i = 0; i < rails->nics().size(); ++i) {
    const IbgdaNic& nic = rails->nics()[i];
    const nic::MemoryRegion& payload =
        part.regions.emplace_back(nic.device, nic.domain, memory, nic.payload);
    const NicKey lkey = payload.lkey();
    const NicKey rkey = payload.rkey();
    NicKey word_rkey = rkey;
    if (words && nic.payload != nic.words) {
      word_rkey = part.regions.emplace_back(nic.device, nic.domain, memory).rkey();
    }
    for (uint32_t rail = 0; rail < rails->count(); ++rail) {
      if (rails->nic_of(rail) != i) continue;
      part.lkeys[rail] = lkey;
      part.remote.payload[rail] = rkey;
      part.remote.words[rail] = word_rkey;
    }
  }
  return part;
}

PublishedWindows::Keys keys_of_all(const std::vector<RemoteKeys>& parts, const Rails* rails) {
  PublishedWindows::Keys keys;
  for (uint32_t rail = 0; rails != nullptr && rail < rails->count(); ++rail) {
    for (const RemoteKeys& part : parts) {
      keys.payload.push_back(part.payload[rail]);
      keys.words.push_back(part.words[rail]);
    }
  }
  return keys;
}

}  // namespace peal
