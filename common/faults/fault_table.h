// The fault points (fault_point.h) as data: what fault_points.inc says.
#ifndef COXSWAIN_COMMON_FAULTS_FAULT_TABLE_H_
#define COXSWAIN_COMMON_FAULTS_FAULT_TABLE_H_

#include <span>
#include <string>
#include <vector>

namespace coxswain::fault {

enum class Process { kController, kWorker, kSupervisor, kControllerAndWorker };
enum class Failure {
  kNone,  // it cannot fail: kill, stop and delay alone
  kCall,  // error is Unavailable; there is no enospc
  kFile,
};
enum class Knows { kNothing, kStep, kRank, kBoth };  // of Where
enum class Point {
#define COXSWAIN_FAULT_POINT(constant, name, process, failure, knows, sentence) constant,
#include "common/faults/fault_points.inc"
#undef COXSWAIN_FAULT_POINT
};

struct Row {
  Point point;
  const char* name;
  Process process;
  Failure failure;
  Knows knows;
  const char* sentence;
};

std::span<const Row> Table();  // in the order of Point

// Whether `process` reaches the point.
bool Has(Process process, const Row& row);
// As they are written: "kill", "delay=MS".
std::vector<std::string> ActionsOf(const Row& row);
bool KnowsStep(const Row& row);
bool KnowsRank(const Row& row);

// A line for each point of `process`: its name, its actions, when it is reached.
std::string ListFaults(Process process);
// common/faults/FAULTS.md.
std::string FaultsPage();

}  // namespace coxswain::fault

#endif  // COXSWAIN_COMMON_FAULTS_FAULT_TABLE_H_
