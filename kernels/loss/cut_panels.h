// What the libraries share of cut_cross_entropy.h: its panels, and the forms in which a panel holds
// logits before their gradient takes their place.
#ifndef COXSWAIN_KERNELS_LOSS_CUT_PANELS_H_
#define COXSWAIN_KERNELS_LOSS_CUT_PANELS_H_

#include "kernels/loss/cut_cross_entropy.h"

namespace coxswain::kernels {

// Columns [first, first + columns) of the logits or of their gradient.
struct CutPanel {
  int64_t first = 0, columns = 0;
  void* values = nullptr;  // [rows, columns] of the spec's dtype
  int64_t ld = 0;          // elements between rows, a multiple of 16 bytes
};

inline constexpr int64_t kCutRowBytes = 32;
inline constexpr int64_t kCutTileColumns = 256;
// Of a row and kCutTileColumns of its logits, while a library sums over tiles.
inline constexpr int64_t kCutPartialBytes = 20;

// The parts of a workspace.
struct CutSpace {
  void* rows = nullptr;     // kCutRowBytes for each
  Workspace products = {};  // of Gemm
  Workspace panel = {};
};
CutSpace CutSpaceOf(int64_t rows, const Workspace& workspace);

// Throw std::invalid_argument. True: there is something to do.
bool ValidateCut(const CutCrossEntropyForwardArgs& args);
bool ValidateCut(const CutCrossEntropyBackwardArgs& args);

// Of each library: the logits of a panel into the rows of `space`, which the first panel begins,
// and from the last one on into losses, hits and statistics.
void AddCutPanel(const CutCrossEntropyForwardArgs& args, const CutSpace& space,
                 const CutPanel& panel, Stream* stream);
// Of each library: the logits of a panel become their gradient.
void ReplaceCutPanel(const CutCrossEntropyBackwardArgs& args, const CutPanel& panel,
                     Stream* stream);

void PlainCutForward(const CutCrossEntropyForwardArgs& args, Stream* stream);
// Fills a panel with dz.
void PlainCutGradient(const CutCrossEntropyBackwardArgs& args, const CutSpace& space,
                      const CutPanel& panel, Stream* stream);
// `fill` is a function like PlainCutGradient.
using FillCutPanel = void (*)(const CutCrossEntropyBackwardArgs&, const CutSpace&, const CutPanel&,
                              Stream*);
void CutGradients(const CutCrossEntropyBackwardArgs& args, FillCutPanel fill, Stream* stream);

}  // namespace coxswain::kernels

#endif  // COXSWAIN_KERNELS_LOSS_CUT_PANELS_H_
