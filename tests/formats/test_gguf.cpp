// GGUF: what is written is read, in one file or in parts; the shipped model; files that are none.
#include <catch2/catch.hpp>
#include <map>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "formats/gguf.h"
#include "formats/gguf_writer.h"
#include "tests/formats/files.h"

using namespace kvasir;
using namespace kvasir::formats_test;

namespace {

std::string refusal(const std::string& path) {
  const auto g = Gguf::open(path);
  REQUIRE_FALSE(g.has_value());
  return g.error().message;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

Gguf open(const std::string& path) {
  auto g = Gguf::open(path);
  if (!g) FAIL(g.error().message);
  return std::move(*g);
}

std::vector<std::byte> bytes_of(int64_t n, int first) {
  std::vector<std::byte> bytes(static_cast<size_t>(n));
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = std::byte(i * 7 + size_t(first));
  return bytes;
}

// A model of one small tensor "t<i>" in each of n parts, as a splitter writes it.
void write_parts(const TemporaryFolder& folder, int n, int n_tensors_claimed) {
  for (int i = 0; i < n; ++i) {
    GgufWriter w("llama");
    w.add_u32("split.no", uint32_t(i));
    w.add_u32("split.count", uint32_t(n));
    w.add_u32("split.tensors.count", uint32_t(n_tensors_claimed));
    const auto data = bytes_of(128, i);
    w.add_tensor(fmt::format("t{}", i), {QuantType::f32, 8, 4, 1, data.data()});
    REQUIRE(w.write(folder.path(fmt::format("m-{:05}-of-{:05}.gguf", i + 1, n))));
  }
}

}  // namespace

TEST_CASE("gguf: every type's tensors come back with type, shape and bytes, at any alignment") {
  const TemporaryFolder folder;
  for (const uint64_t alignment : {8, 32, 64, 4096}) {
    GgufWriter w("qwen3moe", alignment);
    std::vector<std::vector<std::byte>> data;
    for (const auto& t : quant_types()) {
      const TensorView v{t.type, 512, 3, 2, nullptr};
      data.push_back(bytes_of(v.bytes(), int(t.type)));
    }
    size_t i = 0;
    for (const auto& t : quant_types()) w.add_tensor(t.name, {t.type, 512, 3, 2, data[i++].data()});
    REQUIRE(w.write(folder.path("all.gguf")));

    const auto g = open(folder.path("all.gguf"));
    CHECK(g.version() == 3);
    CHECK(g.alignment() == alignment);
    i = 0;
    for (const auto& t : quant_types()) {
      const auto v = g.tensor(t.name, 512, 3, 2);
      REQUIRE(v.has_value());
      CHECK(v->type == t.type);
      CHECK(std::equal(data[i].begin(), data[i].end(), v->data, v->data + v->bytes()));
      CHECK(uint64_t(v->data - g.files()[0].data()) % alignment == 0);
      ++i;
    }
  }
}

TEST_CASE("gguf: metadata of every type that the writer knows comes back, and only as what it is") {
  const TemporaryFolder folder;
  GgufWriter w("x");
  w.add_u32("u32", 4000000000U);
  w.add_u64("u64", ~uint64_t(0));
  w.add_f32("f32", -1.5F);
  w.add_bool("yes", true);
  w.add_string("text", "Grüße");
  w.add_strings("words", std::vector<std::string>{"a", "", "ccc"});
  w.add_i32s("ints", std::vector<int32_t>{-1, 0, 7});
  w.add_f32s("reals", std::vector<float>{0.5F});
  REQUIRE(w.write(folder.path("m.gguf")));
  const auto g = open(folder.path("m.gguf"));
  CHECK(g.integer("u32", 0, INT64_MAX) == 4000000000);
  CHECK_FALSE(g.integer("u64", 0, INT64_MAX).has_value());
  CHECK(g.real("f32") == -1.5);
  CHECK(g.boolean("yes") == true);
  CHECK(g.string("text") == "Grüße");
  CHECK(g.strings("words")->size() == 3);
  CHECK((*g.strings("words"))[2] == "ccc");
  CHECK(g.integers("ints") == std::vector<int64_t>{-1, 0, 7});
  CHECK(g.integers("u32") == std::vector<int64_t>{4000000000});
  CHECK_FALSE(g.optional_integer("absent", 0, 1).value().has_value());
  CHECK(contains(g.integer("absent", 0, 1).error().message, "\"absent\" is missing"));
  CHECK(contains(g.integer("u32", 0, 5).error().message, "is 4000000000; 0 to 5 is expected"));
  CHECK(contains(g.string("u32").error().message, "of type u32; string is expected"));
  CHECK(contains(g.boolean("text").error().message, "of type string; bool is expected"));
  CHECK_FALSE(g.strings("ints").has_value());
  CHECK(contains(g.tensor("t", 4, 5).error().message, "\"t\" of shape [4, 5, 1] is missing"));
}

TEST_CASE("gguf: a split model opens from any part") {
  const TemporaryFolder folder;
  write_parts(folder, 3, 3);
  for (int i = 1; i <= 3; ++i) {
    const auto g = open(folder.path(fmt::format("m-{:05}-of-00003.gguf", i)));
    CHECK(g.files().size() == 3);
    for (int t = 0; t < 3; ++t) {
      const auto* tensor = g.find_tensor(fmt::format("t{}", t));
      REQUIRE(tensor);
      CHECK(tensor->file == size_t(t));
      CHECK(tensor->view.data[1] == std::byte(7 + t));
    }
  }
}

TEST_CASE("gguf: a split model that is not whole names what is wrong") {
  const TemporaryFolder folder;
  write_parts(folder, 3, 4);
  CHECK(contains(refusal(folder.path("m-00001-of-00003.gguf")), "says 4 tensors, the 3 parts hold 3"));
  std::filesystem::copy(folder.path("m-00001-of-00003.gguf"), folder.path("m-00002-of-00003.gguf"),
                        std::filesystem::copy_options::overwrite_existing);
  CHECK(contains(refusal(folder.path("m-00001-of-00003.gguf")), "part 1 of 3, but 2 of 3 is expected"));
  std::filesystem::remove(folder.path("m-00002-of-00003.gguf"));
  const auto missing = refusal(folder.path("m-00003-of-00003.gguf"));
  CHECK(contains(missing, "has 3 parts, missing: "));
  CHECK(contains(missing, "m-00002-of-00003.gguf"));
  std::filesystem::rename(folder.path("m-00001-of-00003.gguf"), folder.path("renamed.gguf"));
  CHECK(contains(refusal(folder.path("renamed.gguf")), "give the parts their names back"));
}

TEST_CASE("gguf: what is no file is refused by name") {
  const TemporaryFolder folder;
  CHECK(Gguf::open(folder.path("nothing")).error().code == ErrorCode::not_found);
  CHECK(contains(refusal(folder.path("nothing")), "No such file"));
  CHECK(contains(refusal(folder.path("")), "Is a directory"));
  CHECK(contains(refusal("/dev/null"), "is no plain file"));
  REQUIRE(mkfifo(folder.path("fifo").c_str(), 0600) == 0);
  CHECK(contains(refusal(folder.path("fifo")), "is no plain file"));
  CHECK(contains(refusal(folder.write("empty", "")), "it has 0 bytes"));
  CHECK(contains(refusal(folder.write("page", "<html><body>404</body></html>")), "3c 68 74 6d"));
  const auto locked = folder.write("locked", "GGUF");
  chmod(locked.c_str(), 0);
  constexpr uid_t kNobody = 65534;  // root reads everything, so it asks as somebody else
  const bool is_root = geteuid() == 0;
  chmod(folder.path("").c_str(), 0755);
  REQUIRE((!is_root || seteuid(kNobody) == 0));
  const auto opened = Gguf::open(locked);
  REQUIRE((!is_root || seteuid(0) == 0));
  prctl(PR_SET_DUMPABLE, 1);  // changing the user took it away, and LeakSanitizer needs it
  REQUIRE_FALSE(opened.has_value());
  CHECK(contains(opened.error().message, "Permission denied"));
}

TEST_CASE("gguf: an array that would take far more memory than the file is refused before it is made") {
  // Holes on the disk, so the claim fits the file: 2^33 elements of one byte, which would take 64 GiB.
  const TemporaryFolder folder;
  for (const auto type : {GgufType::u8, GgufType::string}) {
    const uint64_t n = uint64_t(1) << (type == GgufType::u8 ? 33 : 30);
    std::string header = "GGUF";
    const auto put = [&](auto value) { header.append(reinterpret_cast<const char*>(&value), sizeof value); };
    put(uint32_t(3)), put(uint64_t(0)), put(uint64_t(1)), put(uint64_t(1));
    header += "a";
    put(uint32_t(GgufType::array)), put(uint32_t(type)), put(n);
    const auto path = folder.write("sparse.gguf", header);
    std::filesystem::resize_file(path, (uint64_t(1) << 33) + 4096);
    CHECK(contains(refusal(path), "may have 16777216 together"));
  }
}

TEST_CASE("gguf: a bool is 0 or 1, in an array too") {
  const TemporaryFolder folder;
  const auto file = [&](std::string_view values) {
    std::string bytes = "GGUF";
    const auto put = [&](auto value) { bytes.append(reinterpret_cast<const char*>(&value), sizeof value); };
    put(uint32_t(3)), put(uint64_t(0)), put(uint64_t(1)), put(uint64_t(1));
    bytes += "a";
    put(uint32_t(GgufType::array)), put(uint32_t(GgufType::boolean)), put(uint64_t(values.size()));
    return folder.write("bools.gguf", bytes.append(values));
  };
  CHECK(open(file({"\1\0\1", 3})).integers("a") == std::vector<int64_t>{1, 0, 1});
  CHECK(contains(refusal(file({"\1\0\7", 3})), "at byte 51: array \"a\" has a bool of value 7"));
}

TEST_CASE("gguf: a file cut anywhere is refused") {
  const TemporaryFolder folder;
  GgufWriter w("llama");
  w.add_strings("words", std::vector<std::string>{"one", "two"});
  const auto data = bytes_of(256, 1);
  w.add_tensor("a", {QuantType::f32, 8, 4, 1, data.data()});
  w.add_tensor("b", {QuantType::q8_0, 32, 3, 1, data.data()});
  REQUIRE(w.write(folder.path("whole.gguf")));
  const auto whole = read_file(folder.path("whole.gguf"));
  const auto data_end = whole.size() - (32 - 102 % 32);  // the last tensor has 102 bytes; padding may be cut
  for (size_t n = 0; n < data_end; ++n)
    REQUIRE_FALSE(Gguf::open(folder.write("cut.gguf", std::string_view(whole).substr(0, n))).has_value());
  CHECK(Gguf::open(folder.write("cut.gguf", std::string_view(whole).substr(0, data_end))).has_value());
  CHECK(Gguf::open(folder.write("tail.gguf", whole + std::string(100, '\0'))).has_value());
}

TEST_CASE("gguf: a writer that fails leaves nothing behind") {
  const TemporaryFolder folder;
  const GgufWriter w("llama");
  const auto written = w.write(folder.path("no/such/folder.gguf"));
  REQUIRE_FALSE(written.has_value());
  CHECK(contains(written.error().message, "No such file"));
  CHECK(std::filesystem::is_empty(folder.path("")));
}

TEST_CASE("gguf: the shipped model") {
  const auto g = open(KVASIR_SOURCE_DIR "/models/kvasir-tiny/kvasir-tiny-q4_k_m.gguf");
  CHECK(g.string("general.architecture") == "qwen35moe");
  CHECK(g.tensors().size() == 76);
  std::map<std::string_view, int> by_type;
  for (const auto& t : g.tensors()) ++by_type[info(t.view.type).name];
  CHECK(by_type == std::map<std::string_view, int>{{"F32", 31}, {"Q4_K", 38}, {"Q6_K", 7}});
  CHECK(g.strings("tokenizer.ggml.tokens")->size() == 4096);
  CHECK(g.tensor("blk.0.ffn_gate_exps.weight", 256, 256, 32).has_value());
}
