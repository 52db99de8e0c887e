// Which tensors an architecture has, under which names, of which shapes: stated once, walked to check and to load.
#pragma once
#include <string>

#include "engine/weights.h"

namespace kvasir {

// What is done with each tensor of a model.
class TensorVisitor {
 public:
  virtual ~TensorVisitor() = default;
  // A vector of n values, or a small matrix [n / n_cols][n_cols], of any type, wanted as floats.
  virtual void floats(const std::string& name, int64_t n, int64_t n_cols, std::vector<float>& to) = 0;
  virtual void matrix(const std::string& name, int64_t n_rows, int64_t n_cols, int64_t n_matrices, Matrix& to) = 0;
  // Left in the file.
  virtual void mapped(const std::string& name, int64_t n_rows, int64_t n_cols, TensorView& to) = 0;
};

// Every tensor of the model, in the order of its use. weights.layers has n_layers entries. tied: there is no
// output.weight, the embedding serves as head.
void visit_tensors(const ModelConfig& config, bool tied, ModelWeights& weights, TensorVisitor& visitor);

}  // namespace kvasir
