// Runs the generator.
#include "tests/engine/cases.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <unistd.h>

namespace kvasir::testing {

Json read_case(const std::string& id, const std::string& name) {
  const std::string folder = made_path(fmt::format("cases-{}-{}", id, getpid()));
  const std::string command = fmt::format(
      "PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 {}/tests/cases/gen/gen_cases.py "
      "'{}' {} > /dev/null",
      KVASIR_SOURCE_DIR, folder, id);
  REQUIRE(std::system(command.c_str()) == 0);
  const Json json = read_json(fmt::format("{}/{}/{}", folder, id, name));
  std::filesystem::remove_all(folder);
  return json;
}

}  // namespace kvasir::testing
