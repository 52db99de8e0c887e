// Byte-pair merging of one piece: the pair with the lowest rank first, leftmost among equals, until none is left.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

namespace kvasir {

// What each pair of tokens merges to, in a flat hash table: a look-up is one cache line in most cases.
class MergeTable {
 public:
  struct Merge {
    uint64_t pair = kNoPair;
    uint32_t rank = kNoRank;  // lower merges first
    int32_t merged = -1;
  };
  static constexpr uint64_t kNoPair = ~uint64_t{0};
  static constexpr uint32_t kNoRank = ~uint32_t{0};

  explicit MergeTable(size_t n_merges);
  // Does nothing if the pair is there already (its first rank holds). At most n_merges calls.
  void add(int32_t left, int32_t right, uint32_t rank, int32_t merged);
  // rank is kNoRank if the two do not merge.
  const Merge& find(int32_t left, int32_t right) const;

 private:
  size_t slot(uint64_t pair) const;
  std::vector<Merge> slots_;
  int shift_;
};

// Merges pieces, with memory that it keeps between them. One for each thread.
class BpeMerger {
 public:
  explicit BpeMerger(const MergeTable& merges) : merges_(merges) {}

  // Appends the tokens that the symbols merge to; O(n log n). `symbols` is used up.
  void merge(std::vector<int32_t>& symbols, std::vector<int32_t>& ids);

 private:
  struct Symbol {
    int32_t id;
    int32_t previous, next;  // -1 at the ends
    uint32_t rank;           // of the merge with the next one
  };
  void merge_short(std::vector<int32_t>& symbols);
  void merge_long(std::vector<int32_t>& symbols);
  void look_up(int32_t index);
  const MergeTable& merges_;
  std::vector<uint32_t> ranks_;
  std::vector<Symbol> list_;
  std::vector<uint64_t> queue_;  // a heap of rank << 32 | index
};

}  // namespace kvasir
