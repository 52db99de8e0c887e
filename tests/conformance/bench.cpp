// Matrix products over more weights than a cache holds, between measurements of plain reading.
#include "tests/conformance/bench.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <nlohmann/json.hpp>
#include <sys/mman.h>

#include "core/clock.h"
#include "core/limits.h"
#include "kernels/read_bandwidth.h"
#include "tests/conformance/cases.h"
#include "tests/conformance/suite.h"

namespace kvasir::conformance {
namespace {

struct Options {
  std::string type, backend;
  int64_t n_rows = 0;
  int n_threads = 1;
  bool tiny = false, json = false;
};

// Gate or up of one expert of Qwen3-30B-A3B.
constexpr int64_t kWeightRows = 768;
constexpr int64_t kCols = 2048;
constexpr int64_t kWeightBytes = int64_t(320) << 20;  // GGUF bytes: beyond what caches keep, as decode meets them
constexpr int64_t kMacs = int64_t(1) << 33;           // of one repeat: many rows go through fewer matrices
constexpr int kRepeats = 7;

// Memory on huge pages, as the engine has its weights.
class HugePages {
 public:
  explicit HugePages(int64_t n_bytes) : n_bytes_(n_bytes) {
    void* data = mmap(nullptr, n_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    KV_CHECK(data != MAP_FAILED, "no memory for the benchmark's weights");
    madvise(data, n_bytes_, MADV_HUGEPAGE);
    data_ = static_cast<std::byte*>(data);
  }
  ~HugePages() { munmap(data_, n_bytes_); }
  HugePages(const HugePages&) = delete;
  HugePages& operator=(const HugePages&) = delete;
  std::byte* data() const { return data_; }

 private:
  int64_t n_bytes_;
  std::byte* data_ = nullptr;
};

// Many copies of one packed matrix at as many places.
struct Experts {
  Experts(const CpuBackend& backend, const Matrix& matrix, int64_t n)
      : packed_bytes(backend.packed_bytes(matrix.type, matrix.n_rows, matrix.n_cols)),
        stride(((packed_bytes > 0 ? packed_bytes : matrix.bytes.size()) + 63) / 64 * 64),
        n_matrices(n),
        pages(stride * n) {
    for (int64_t i = 0; i < n; ++i) {
      if (packed_bytes > 0)
        backend.pack(matrix.view(), 0, matrix.n_rows, pages.data() + i * stride);
      else
        std::memcpy(pages.data() + i * stride, matrix.bytes.data(), matrix.bytes.size());
    }
  }
  int64_t packed_bytes, stride, n_matrices;
  HugePages pages;
};

struct Result {
  std::string_view backend, type;
  int64_t n_rows;
  int n_threads;
  double seconds;  // median of the repeats
  double bytes_s;  // of GGUF weights
  double share;    // of the read bandwidth, median repeat by repeat
  double macs_s;
  uint64_t hash;
};

double median(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + std::ptrdiff_t(values.size() / 2));
  return values[values.size() / 2];
}

uint64_t hash_of(const Guarded<float>& out) {  // FNV-1a over words
  uint64_t hash = 0xcbf29ce484222325;
  for (const float v : out) hash = (hash ^ std::bit_cast<uint32_t>(v)) * 0x100000001b3;
  return hash;
}

Result measure(const CpuBackend& backend, const Matrix& matrix, const Experts& experts, int64_t n_rows,
               ThreadPool& pool, const ReadBandwidth& bandwidth, int n_repeats) {
  Random random(2);
  const Activations x = ordinary_activations(matrix.type, n_rows, matrix.n_cols, random);
  const int64_t macs_of_one = matrix.n_rows * matrix.n_cols * n_rows;
  const int64_t n_matrices = std::clamp<int64_t>(kMacs / macs_of_one, pool.n_threads(), experts.n_matrices);
  std::vector<Guarded<float>> outs;
  for (int i = 0; i < pool.n_threads(); ++i) outs.emplace_back(n_rows * matrix.n_rows);
  std::vector<double> seconds, shares;
  const double n_bytes = double(n_matrices) * double(matrix.bytes.size());
  for (int repeat = 0; repeat < n_repeats; ++repeat) {
    const double read_bytes_s = bandwidth.measure(pool);
    const auto start = Clock::now();
    pool.run(n_matrices, [&](int64_t i, int thread) {
      const Weights w{matrix.type, matrix.n_rows, matrix.n_cols, experts.pages.data() + i * experts.stride};
      backend.matmul(w, 0, w.n_rows, x.view(), outs[thread].data(), w.n_rows);
    });
    seconds.push_back(seconds_since(start));
    shares.push_back(n_bytes / seconds.back() / read_bytes_s);
  }
  const double time = median(seconds);
  return {backend.name,
          info(matrix.type).name,
          n_rows,
          pool.n_threads(),
          time,
          n_bytes / time,
          median(shares),
          double(n_matrices) * double(macs_of_one) / time,
          hash_of(outs[0])};
}

void print(const Result& r) {
  fmt::print("{:<10} {:<7} {:>5} {:>8} {:>9.2f} {:>8.1f} {:>7.0f} % {:>9.1f}  {:016x}\n", r.backend, r.type, r.n_rows,
             r.n_threads, r.seconds * 1e3, r.bytes_s / 1e9, r.share * 100, r.macs_s / 1e9, r.hash);
  std::fflush(stdout);
}

nlohmann::ordered_json to_json(const Result& r) {
  return {{"backend", r.backend},   {"type", r.type},       {"rows", r.n_rows},
          {"threads", r.n_threads}, {"seconds", r.seconds}, {"bytes_s", r.bytes_s},
          {"share", r.share},       {"macs_s", r.macs_s},   {"hash", fmt::format("{:016x}", r.hash)}};
}

std::vector<QuantType> chosen_types(const Options& o) {
  if (o.type.empty()) return {QuantType::q4_k, QuantType::q6_k, QuantType::q8_0};
  if (const auto type = quant_type_from_name(o.type)) return {*type};
  std::vector<QuantType> all;
  for (const QuantTypeInfo& type : quant_types()) all.push_back(type.type);
  return all;
}

// All of this build that run here but the reference, whose speed is nobody's concern, or the one that is asked for.
std::vector<const CpuBackend*> chosen_backends(const Options& o) {
  std::vector<const CpuBackend*> chosen;
  for (const auto& [backend, missing] : tested_backends())
    if (missing.empty() &&
        (o.backend.empty() ? backend->name != "reference" && backend->name != "amx-model" : backend->name == o.backend))
      chosen.push_back(backend);
  return chosen;
}

Expected<int64_t> parse_number(std::string_view option, std::string_view text, int64_t max) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 1 || value > max)
    return fail(ErrorCode::invalid_argument, "{} takes a number from 1 to {}, found \"{}\"", option, max, text);
  return value;
}

Expected<Options> parse(std::span<char*> arguments) {
  Options o;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string_view option = arguments[i];
    const bool has_value = i + 1 < arguments.size();
    if (option == "--tiny") {
      o.tiny = true;
    } else if (option == "--json") {
      o.json = true;
    } else if (option == "--type" && has_value) {
      o.type = arguments[++i];
    } else if (option == "--backend" && has_value) {
      o.backend = arguments[++i];
    } else if (option == "--rows" && has_value) {
      KV_TRY(o.n_rows, parse_number(option, arguments[++i], kMaxBatchRows));
    } else if (option == "--threads" && has_value) {
      KV_TRY(const int64_t n, parse_number(option, arguments[++i], kMaxThreads));
      o.n_threads = int(n);
    } else {
      return fail(ErrorCode::invalid_argument, "--bench does not know \"{}\"; see --help-conformance", option);
    }
  }
  return o;
}

Expected<std::vector<Result>> run_all(const Options& o) {
  if (!o.type.empty() && o.type != "all" && !quant_type_from_name(o.type))
    return fail(ErrorCode::invalid_argument, "--type {}: no such weight type; try Q4_K, or all", o.type);
  const auto backends = chosen_backends(o);
  if (backends.empty() && !o.backend.empty())
    return fail(ErrorCode::invalid_argument, "--backend {}: no such backend runs here", o.backend);
  KV_TRY(const ReadBandwidth bandwidth, ReadBandwidth::create(uint64_t(o.tiny ? 4 : 512) << 20));
  ThreadPool pool(o.n_threads);
  const std::vector<int64_t> rows = o.n_rows ? std::vector<int64_t>{o.n_rows} : std::vector<int64_t>{1, 4, 16, 64, 512};
  std::vector<Result> results;
  for (const CpuBackend* backend : backends)
    for (const QuantType type : chosen_types(o)) {
      Random random(1);
      const Matrix matrix = ordinary_weights(type, o.tiny ? 48 : kWeightRows, o.tiny ? 512 : kCols, random);
      const int64_t n_matrices = o.tiny ? 2 * o.n_threads : kWeightBytes / matrix.bytes.size() + 1;
      const Experts experts(*backend, matrix, n_matrices);
      for (const int64_t n_rows : rows) {
        results.push_back(measure(*backend, matrix, experts, n_rows, pool, bandwidth, o.tiny ? 1 : kRepeats));
        if (!o.json) print(results.back());
      }
    }
  return results;
}

}  // namespace

int bench(std::span<char*> arguments) {
  const Expected<Options> parsed = parse(arguments);
  if (!parsed) {
    fmt::print(stderr, "{}\n", parsed.error().message);
    return 2;
  }
  const Options& o = *parsed;
  if (!o.json)
    fmt::print("{:<10} {:<7} {:>5} {:>8} {:>9} {:>8} {:>9} {:>9}  {}\n", "backend", "type", "rows", "threads", "ms",
               "GB/s", "of read", "GMAC/s", "hash of the output");
  const auto results = run_all(o);
  if (!results) {
    fmt::print(stderr, "{}\n", results.error().message);
    return 2;
  }
  if (o.json) {
    nlohmann::ordered_json document = nlohmann::ordered_json::array();
    for (const Result& r : *results) document.push_back(to_json(r));
    fmt::print("{}\n", document.dump(2));
  }
  return 0;
}

}  // namespace kvasir::conformance
