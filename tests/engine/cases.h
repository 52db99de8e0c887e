// Inputs that tests/cases/gen makes for the faults of docs' list of cases.
#pragma once
#include "tests/engine/models.h"

namespace kvasir::testing {

// The JSON file `name` of one case ("MO-01"), generated on first use.
Json read_case(const std::string& id, const std::string& name);

}  // namespace kvasir::testing
