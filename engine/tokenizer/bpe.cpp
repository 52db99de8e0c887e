// Short pieces, nearly all of them, are merged by scanning; long ones by a heap over a linked list.
#include "engine/tokenizer/bpe.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <functional>

namespace kvasir {
namespace {

constexpr size_t kShort = 32;  // symbols up to which scanning is faster than the heap
constexpr int kMinSlotBits = 4;

uint64_t pair_of(int32_t left, int32_t right) {
  return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
}

}  // namespace

MergeTable::MergeTable(size_t n_merges) {
  const int bits = std::max(kMinSlotBits, static_cast<int>(std::bit_width(2 * n_merges)));  // at most half full
  slots_.resize(size_t{1} << bits);
  shift_ = 64 - bits;
}

size_t MergeTable::slot(uint64_t pair) const {
  // Multiplicative hashing (Knuth, vol. 3, 6.4) of both halves; the fold lets the left token reach the low bits.
  size_t at = static_cast<size_t>(((pair ^ pair >> 29) * 0x9E3779B97F4A7C15u) >> shift_);
  while (slots_[at].pair != pair && slots_[at].pair != kNoPair) at = (at + 1) & (slots_.size() - 1);
  return at;
}

void MergeTable::add(int32_t left, int32_t right, uint32_t rank, int32_t merged) {
  const uint64_t pair = pair_of(left, right);
  Merge& entry = slots_[slot(pair)];
  if (entry.pair == kNoPair) entry = {pair, rank, merged};
}

const MergeTable::Merge& MergeTable::find(int32_t left, int32_t right) const {
  return slots_[slot(pair_of(left, right))];
}

void BpeMerger::merge(std::vector<int32_t>& symbols, std::vector<int32_t>& ids) {
  if (symbols.size() <= kShort) {
    merge_short(symbols);
  } else {
    merge_long(symbols);
  }
  ids.insert(ids.end(), symbols.begin(), symbols.end());
}

void BpeMerger::merge_short(std::vector<int32_t>& symbols) {
  if (symbols.size() < 2) return;
  const auto rank_at = [&](size_t i) { return merges_.find(symbols[i], symbols[i + 1]).rank; };
  ranks_.resize(symbols.size() - 1);
  for (size_t i = 0; i < ranks_.size(); ++i) ranks_[i] = rank_at(i);
  while (!ranks_.empty()) {
    const auto best = std::min_element(ranks_.begin(), ranks_.end());
    if (*best == MergeTable::kNoRank) return;
    const auto i = static_cast<size_t>(best - ranks_.begin());
    symbols[i] = merges_.find(symbols[i], symbols[i + 1]).merged;
    symbols.erase(symbols.begin() + static_cast<ptrdiff_t>(i) + 1);
    ranks_.erase(best);
    if (i > 0) ranks_[i - 1] = rank_at(i - 1);
    if (i < ranks_.size()) ranks_[i] = rank_at(i);
  }
}

// Finds the rank of a symbol with its next one, and queues it.
void BpeMerger::look_up(int32_t index) {
  Symbol& symbol = list_[static_cast<size_t>(index)];
  symbol.rank =
      symbol.next < 0 ? MergeTable::kNoRank : merges_.find(symbol.id, list_[static_cast<size_t>(symbol.next)].id).rank;
  if (symbol.rank == MergeTable::kNoRank) return;
  queue_.push_back(uint64_t{symbol.rank} << 32 | static_cast<uint32_t>(index));
  std::push_heap(queue_.begin(), queue_.end(), std::greater<>());
}

void BpeMerger::merge_long(std::vector<int32_t>& symbols) {
  const auto n = static_cast<int32_t>(symbols.size());
  list_.clear();
  queue_.clear();
  for (int32_t i = 0; i < n; ++i)
    list_.push_back({symbols[static_cast<size_t>(i)], i - 1, i + 1 < n ? i + 1 : -1, MergeTable::kNoRank});
  for (int32_t i = 0; i < n; ++i) look_up(i);
  while (!queue_.empty()) {
    const uint64_t top = queue_.front();
    std::pop_heap(queue_.begin(), queue_.end(), std::greater<>());
    queue_.pop_back();
    const auto index = static_cast<int32_t>(top & 0xFFFFFFFFu);
    Symbol& left = list_[static_cast<size_t>(index)];
    if (left.rank != top >> 32) continue;  // one of the two has merged since: a rank names one pair
    Symbol& right = list_[static_cast<size_t>(left.next)];
    left.id = merges_.find(left.id, right.id).merged;
    left.next = right.next;
    right.rank = MergeTable::kNoRank;
    if (left.next >= 0) list_[static_cast<size_t>(left.next)].previous = index;
    look_up(index);
    if (left.previous >= 0) look_up(left.previous);
  }
  symbols.clear();
  for (int32_t i = 0; i >= 0; i = list_[static_cast<size_t>(i)].next)
    symbols.push_back(list_[static_cast<size_t>(i)].id);
}

}  // namespace kvasir
