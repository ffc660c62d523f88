// Which recorded steps the replay of a gang must reproduce bit by bit.
#ifndef COXSWAIN_CONTROLLER_DRIVER_REPLAYS_H_
#define COXSWAIN_CONTROLLER_DRIVER_REPLAYS_H_

#include <string>
#include <vector>

#include "common/plan/plan.h"
#include "controller/driver/gang.h"
#include "controller/store/store.h"

namespace coxswain::driver {

// True when the plans differ at most in links and predictions, from which nothing is computed.
bool SameArithmetic(plan::Plan a, const plan::Plan& b);

// The GEMM table of the newest epoch that had one; empty: none did.
std::string LastGemmTable(const std::vector<store::EpochRow>& epochs);

// The epoch had the fingerprint, the world size, the GEMM table and the arithmetic of `gang`. Its
// plan is read from `store`; one that is not there or not readable is another.
bool MustAgree(const store::EpochRow& epoch, const Gang& gang, store::Store* store);

}  // namespace coxswain::driver

#endif  // COXSWAIN_CONTROLLER_DRIVER_REPLAYS_H_
