// The files of this folder that are not C++, compiled in (cmake/embed.cmake).
#ifndef COXSWAIN_CONTROLLER_STATUS_PAGE_PAGE_FILES_H_
#define COXSWAIN_CONTROLLER_STATUS_PAGE_PAGE_FILES_H_

#include <map>
#include <string>

namespace coxswain::status_page {

// By file name.
const std::map<std::string, std::string>& PageFiles();

}  // namespace coxswain::status_page

#endif  // COXSWAIN_CONTROLLER_STATUS_PAGE_PAGE_FILES_H_
