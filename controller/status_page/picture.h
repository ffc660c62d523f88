// The curves of jobs as one SVG file that stands alone: what `cox plot` writes, and the status page
// at /jobs/ID.svg.
#ifndef COXSWAIN_CONTROLLER_STATUS_PAGE_PICTURE_H_
#define COXSWAIN_CONTROLLER_STATUS_PAGE_PICTURE_H_

#include <string>
#include <vector>

#include "controller/status_page/history.h"

namespace coxswain::status_page {

struct PlottedJob {
  std::string label;  // any text; shortened
  const History* history = nullptr;
};

// Loss with held-back loss, learning rate, gradient norm, and tokens per second over steps: a panel
// each, whose axes hold all jobs, and in each a line per job. The same jobs give the same bytes.
std::string PictureSvg(const std::vector<PlottedJob>& jobs);

}  // namespace coxswain::status_page

#endif  // COXSWAIN_CONTROLLER_STATUS_PAGE_PICTURE_H_
