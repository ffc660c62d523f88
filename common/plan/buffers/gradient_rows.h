// Where backward writes the gradient of an activation: rows that all layers use in turn, given out
// by liveness.
#ifndef COXSWAIN_COMMON_PLAN_BUFFERS_GRADIENT_ROWS_H_
#define COXSWAIN_COMMON_PLAN_BUFFERS_GRADIENT_ROWS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/model/block.h"

namespace coxswain::plan {

// Of one block. The stream and the branches that are added to it share "dres": the gradient of a
// sum is that of its parts. What goes into a gate or an activation, and what experts give back,
// become their gradient. Every other row has a slot of its class from the first op of backward that
// writes it to the op that made it: "dnorm" of what norms and branches hold, "dqkv", "datt",
// "dswiglu" of what goes into a down projection, "dheads" of what heads of latent attention are
// made from; for experts "drouted" and "dexperts" of what goes into the first and the second of
// their linears. A router has "dweights" and "dlogits" in float32, and "dscores", the latter in the
// compute dtype.
struct GradientRows {
  std::map<model::Row, model::Row> of;
  // By the id of a LinearOp whose output has "dres": room of the output's width for a copy of it.
  std::map<int32_t, model::Row> copy_of_output;
};
GradientRows GradientRowsOf(const model::Block& block);

// A row of gradients, as wide as the widest block needs it.
struct GradientSlot {
  std::string name;
  int64_t width = 0;        // elements of a token
  bool float32 = false;     // else the compute dtype
  bool in_forward = false;  // holds branches, or rows that layers share, in forward too
  // Those rows: forward is done with each before it needs its memory again, as backward mirrored.
  std::vector<std::string> rows = {};
};

// All but "dres", in the order of the buffer table. A block with a linear that adds to a branch has
// two slots of "dnorm": "dshared" is the second.
std::vector<GradientSlot> GradientSlots(const model::Architecture& model);

}  // namespace coxswain::plan

#endif  // COXSWAIN_COMMON_PLAN_BUFFERS_GRADIENT_ROWS_H_
