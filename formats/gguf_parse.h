// Inside formats/: one GGUF file, parsed and checked by itself; gguf.cpp joins the parts of a split model.
#pragma once
#include "formats/gguf.h"

namespace kvasir {

struct GgufPart {
  uint32_t version = 0;
  uint64_t alignment = 32;
  std::vector<GgufEntry> entries;
  std::vector<GgufTensor> tensors;  // views point into the mapping, by offset
};

// Everything of the header that can be checked within one file. Strings borrow from the mapping.
Expected<GgufPart> parse_gguf(const MappedFile& file);

}  // namespace kvasir
