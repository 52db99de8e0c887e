// What this CPU, its system and its kernel let us use.
#pragma once
#include <string_view>

namespace kvasir::x86 {

// Why a target cannot run here; "" if it can. Each asks CPUID for the instructions and XCR0 for the registers that the
// system saves; AMX also asks the kernel for permission, for the whole process, the first time.
std::string_view missing_for_avx2();
std::string_view missing_for_avx512();
std::string_view missing_for_amx();

}  // namespace kvasir::x86
