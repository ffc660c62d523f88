// Where the golden cases are (tests/fixtures/README.md).
#ifndef COXSWAIN_TESTS_SUPPORT_GOLDEN_FOLDER_H_
#define COXSWAIN_TESTS_SUPPORT_GOLDEN_FOLDER_H_

#include <string>

namespace coxswain::support {

// Absolute path of the folder of case `name`: of those that the build unpacked or, on a machine
// without the build, of those in $COXSWAIN_FIXTURES. A name that is no case gives a folder that
// does not exist.
std::string GoldenFolder(const std::string& name);

}  // namespace coxswain::support

#endif  // COXSWAIN_TESTS_SUPPORT_GOLDEN_FOLDER_H_
