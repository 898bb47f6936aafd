// Pages and states on their way to and from the host, for sessions.
#include <cstring>

#include "base/check.h"
#include "decode/executor.h"

namespace plumb::decode {

using device::Buffer;

std::uint64_t Executor::kv_page_bytes(std::int32_t layer_class) const {
  std::uint64_t bytes = 0;
  for (const KvStorage& storage : kv_storage_) {
    if (storage.layer_class == layer_class) bytes += 2 * static_cast<std::uint64_t>(storage.view.kv_heads) * storage.block_bytes();
  }
  return bytes;
}

Status Executor::read_page(std::int32_t layer_class, std::int32_t page, std::span<std::byte> bytes) {
  PLUMB_CHECK(bytes.size() == kv_page_bytes(layer_class));
  PLUMB_ASSIGN(device::CommandBuffer buffer, queue_.begin({.label = "read page"}));
  std::uint64_t at = 0;
  for (const KvStorage& storage : kv_storage_) {
    if (storage.layer_class != layer_class) continue;
    const std::uint64_t block = storage.block_bytes();
    for (const Buffer& half : {storage.k, storage.v}) {
      for (int head = 0; head < storage.view.kv_heads; ++head, at += block) PLUMB_TRY(buffer->copy(transfer_, at, half, storage.block(page, head), block));
    }
  }
  PLUMB_TRY(queue_.submit(std::move(buffer)).wait());
  std::memcpy(bytes.data(), transfer_.address, bytes.size());
  return {};
}

Status Executor::write_page(std::int32_t layer_class, std::int32_t page, std::span<const std::byte> bytes) {
  PLUMB_CHECK(bytes.size() == kv_page_bytes(layer_class));
  PLUMB_ASSIGN(device::CommandBuffer buffer, queue_.begin({.label = "write page"}));
  std::uint64_t at = 0;
  for (const KvStorage& storage : kv_storage_) {
    if (storage.layer_class != layer_class) continue;
    const std::uint64_t block = storage.block_bytes();
    for (const Buffer& half : {storage.k, storage.v}) {
      for (int head = 0; head < storage.view.kv_heads; ++head, at += block) PLUMB_TRY(buffer->upload(half, storage.block(page, head), bytes.subspan(at, block)));
    }
  }
  return queue_.submit(std::move(buffer)).wait();
}

std::uint64_t Executor::state_bytes() const {
  std::uint64_t bytes = 0;
  for (const StateStorage& storage : state_storage_) bytes += storage.slot_bytes;
  return bytes;
}

Status Executor::read_state(std::int32_t slot, std::span<std::byte> bytes) {
  PLUMB_CHECK(bytes.size() == state_bytes());
  PLUMB_ASSIGN(device::CommandBuffer buffer, queue_.begin({.label = "read state"}));
  std::uint64_t at = 0;
  for (const StateStorage& storage : state_storage_) {
    PLUMB_TRY(buffer->copy(transfer_, at, storage.buffer, static_cast<std::uint64_t>(slot) * storage.slot_bytes, storage.slot_bytes));
    at += storage.slot_bytes;
  }
  PLUMB_TRY(queue_.submit(std::move(buffer)).wait());
  std::memcpy(bytes.data(), transfer_.address, bytes.size());
  return {};
}

Status Executor::write_state(std::int32_t slot, std::span<const std::byte> bytes) {
  PLUMB_CHECK(bytes.size() == state_bytes());
  PLUMB_ASSIGN(device::CommandBuffer buffer, queue_.begin({.label = "write state"}));
  std::uint64_t at = 0;
  for (const StateStorage& storage : state_storage_) {
    PLUMB_TRY(buffer->upload(storage.buffer, static_cast<std::uint64_t>(slot) * storage.slot_bytes, bytes.subspan(at, storage.slot_bytes)));
    at += storage.slot_bytes;
  }
  return queue_.submit(std::move(buffer)).wait();
}

}  // namespace plumb::decode
