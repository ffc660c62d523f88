// --list-faults of a program.
#ifndef COXSWAIN_COMMON_FAULTS_FAULT_FLAG_H_
#define COXSWAIN_COMMON_FAULTS_FAULT_FLAG_H_

#include <CLI/App.hpp>

#include "common/faults/fault_table.h"

namespace coxswain::fault {

// The flag prints ListFaults and ends the parsing with CLI::Success.
void AddListFlag(CLI::App& app, Process process);

}  // namespace coxswain::fault

#endif  // COXSWAIN_COMMON_FAULTS_FAULT_FLAG_H_
