// The output of the law's executable form (tests/data/vectors): functions, A8, and whole experts through to the
// combine, by every backend.
#include <array>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "formats/safetensors.h"
#include "kernels/reference/reference.h"
#include "tests/conformance/check.h"
#include "tests/conformance/suite.h"

namespace kvasir::conformance {
namespace {

constexpr std::array kFfnFiles = {
    "ffn_f32",  "ffn_f16",    "ffn_bf16",   "ffn_q4_0",  "ffn_q4_1",           "ffn_q5_0",
    "ffn_q5_1", "ffn_q8_0",   "ffn_q2_k",   "ffn_q3_k",  "ffn_q4_k",           "ffn_q5_k",
    "ffn_q6_k", "ffn_iq4_nl", "ffn_iq4_xs", "ffn_mxfp4", "ffn_q4_k_q6_k_3072", "ffn_combine_48_of_64"};

// One file of vectors.
class Vectors {
 public:
  explicit Vectors(const std::string& name) : file_(open(name)) {}

  bool has(std::string_view name) const { return file_.find(name) != nullptr; }
  int64_t dim(std::string_view name, size_t i) const { return int64_t(tensor(name).shape.at(i)); }
  QuantType type(std::string_view key) const {
    for (const auto& [k, value] : file_.metadata())
      if (k == key) return quant_type_from_name(value).value();
    FAIL("the vectors do not say " << key);
    return {};
  }
  // A copy, so that a read beyond the end is caught.
  template <class T>
  Guarded<T> array(std::string_view name) const {
    const auto& t = tensor(name);
    Guarded<T> copy(int64_t(t.n_bytes / sizeof(T)));
    std::memcpy(copy.data(), t.data, t.n_bytes);
    return copy;
  }

 private:
  static SafetensorsFile open(const std::string& name) {
    auto file = SafetensorsFile::open(KVASIR_SOURCE_DIR "/tests/data/vectors/" + name + ".safetensors");
    if (!file) FAIL(file.error().message);
    return std::move(*file);
  }
  const SafetensorsTensor& tensor(std::string_view name) const {
    const auto* t = file_.find(name);
    if (!t) FAIL("the vectors lack " << name);
    return *t;
  }

  SafetensorsFile file_;
};

std::string difference(const Guarded<float>& found, const Guarded<float>& expected) {
  return found.size() == expected.size() ? first_difference(found.data(), expected.data(), found.size())
                                         : "sizes differ";
}

void functions(const CpuBackend& backend) {
  const Vectors v("functions");
  const auto x = v.array<float>("x"), silu = v.array<float>("silu"), sigmoid = v.array<float>("sigmoid");
  const auto d = v.array<float>("d"), recip = v.array<float>("recip");
  const Guarded<float> ones(x.size()), out(x.size()), out_recip(d.size());
  std::fill(ones.begin(), ones.end(), 1.0F);
  backend.silu_mul(x.data(), ones.data(), x.size(), out.data());
  REQUIRE(difference(out, silu) == "");
  // What lies inside silu_mul and quantize_a8 is only visible in the reference.
  std::transform(x.begin(), x.end(), out.begin(), exact_sigmoid);
  REQUIRE(difference(out, sigmoid) == "");
  std::transform(d.begin(), d.end(), out_recip.begin(), exact_recip);
  REQUIRE(difference(out_recip, recip) == "");
}

// The experts of one file, packed by one backend.
class Experts {
 public:
  Experts(const CpuBackend& backend, const Vectors& v)
      : backend_(backend),
        gate_type_(v.type("gate_type")),
        up_type_(v.type("up_type")),
        down_type_(v.type("down_type")),
        n_expert_(v.dim("gate", 0)),
        n_ff_(v.dim("gate", 1)),
        n_embd_(v.dim("down", 1)),
        gate_(v.array<std::byte>("gate")),
        up_(v.array<std::byte>("up")),
        down_(v.array<std::byte>("down")) {}

  int64_t n_expert() const { return n_expert_; }
  int64_t n_embd() const { return n_embd_; }
  QuantType gate_type() const { return gate_type_; }

  // Expert e of every row of x [n][n_embd]: [n][n_embd].
  Guarded<float> run(int64_t e, const float* x, int64_t n) const {
    const Guarded<float> gate = product(gate_type_, gate_, e, n_ff_, x, n, n_embd_);
    const Guarded<float> up = product(up_type_, up_, e, n_ff_, x, n, n_embd_);
    const Guarded<float> h(gate.size());
    backend_.silu_mul(gate.data(), up.data(), gate.size(), h.data());
    return product(down_type_, down_, e, n_embd_, h.data(), n, n_ff_);
  }

 private:
  Guarded<float> product(QuantType type, const Guarded<std::byte>& experts, int64_t e, int64_t n_weight_rows,
                         const float* x, int64_t n, int64_t n_cols) const {
    const TensorView all{type, n_cols, n_weight_rows, n_expert_, experts.data()};
    REQUIRE(all.bytes() == experts.size());
    const BackendWeights w(backend_, all.matrix(e));
    Activations rows(type, n, n_cols);
    for (int64_t t = 0; t < n; ++t) rows.set_row(t, x + t * n_cols, backend_);
    Guarded<float> out(n * n_weight_rows);
    backend_.matmul(w.weights(), 0, n_weight_rows, rows.view(), out.data(), n_weight_rows);
    REQUIRE(out.intact());
    return out;
  }

  const CpuBackend& backend_;
  QuantType gate_type_, up_type_, down_type_;
  int64_t n_expert_, n_ff_, n_embd_;
  Guarded<std::byte> gate_, up_, down_;
};

void a8_codes(const CpuBackend& backend) {
  for (const char* name : kFfnFiles) {
    const Vectors v(name);
    if (!v.has("a8_codes")) continue;
    INFO(name);
    const auto x = v.array<float>("x"), scales = v.array<float>("a8_scales");
    const auto codes = v.array<int8_t>("a8_codes");
    Activations rows(v.type("gate_type"), v.dim("x", 0), v.dim("x", 1));
    for (int64_t t = 0; t < rows.n_rows; ++t) rows.set_row(t, x.data() + t * rows.n_cols, backend);
    REQUIRE(std::memcmp(rows.codes.data(), codes.data(), codes.size()) == 0);
    REQUIRE(difference(rows.scales, scales) == "");
  }
}

// Every token's chosen experts, each computed `at_once` tokens at a time, weighted and summed as integers.
void check_experts(const CpuBackend& backend, const Vectors& v, int64_t at_once) {
  const Experts experts(backend, v);
  const auto x = v.array<float>("x"), weights = v.array<float>("weights"), expert_out = v.array<float>("expert_out");
  const auto ids = v.array<int32_t>("ids");
  const int64_t n_tokens = v.dim("ids", 0), top_k = v.dim("ids", 1), n_embd = experts.n_embd();
  const Guarded<int64_t> sums(n_tokens * n_embd);
  std::fill(sums.begin(), sums.end(), 0);
  for (int64_t e = 0; e < experts.n_expert(); ++e)
    for (int64_t begin = 0; begin < n_tokens; begin += at_once) {
      const int64_t n = std::min(at_once, n_tokens - begin);
      const Guarded<float> y = experts.run(e, x.data() + begin * n_embd, n);
      for (int64_t i = begin * top_k; i < (begin + n) * top_k; ++i) {
        if (ids[i] != e) continue;
        const float* row = y.data() + (i / top_k - begin) * n_embd;
        INFO("expert " << e << ", token " << i / top_k << ", " << at_once << " tokens at once");
        REQUIRE(first_difference(row, expert_out.data() + i * n_embd, n_embd) == "");
        REQUIRE(backend.add_fixed(weights[i], row, n_embd, sums.data() + i / top_k * n_embd));
      }
    }
  const auto routed_sum = v.array<int64_t>("routed_sum");
  const Guarded<float> out(sums.size());
  backend.fixed_to_f32(sums.data(), sums.size(), out.data());
  REQUIRE(std::equal(sums.begin(), sums.end(), routed_sum.begin(), routed_sum.end()));
  REQUIRE(difference(out, v.array<float>("routed_out")) == "");
}

void whole_experts(const CpuBackend& backend) {
  for (const char* name : kFfnFiles) {
    const Vectors v(name);
    INFO(name);
    for (const int64_t at_once : {1, 2, 512}) check_experts(backend, v, at_once);
  }
}

constexpr std::array kTests = {
    BackendTest{"SiLU is the vectors'", functions},
    BackendTest{"quantize_a8 gives the vectors' codes and scales", a8_codes},
    BackendTest{"whole experts and their combine are the vectors'", whole_experts},
};

}  // namespace

std::span<const BackendTest> vector_tests() {
  return kTests;
}

}  // namespace kvasir::conformance
