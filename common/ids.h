// Identifiers drawn at run time.
#ifndef COXSWAIN_COMMON_IDS_H_
#define COXSWAIN_COMMON_IDS_H_

#include <string>

namespace coxswain {

std::string NewUuid();              // RFC 4122 version 4, from the operating system's entropy
std::string RandomHex(int digits);  // lower case

}  // namespace coxswain

#endif  // COXSWAIN_COMMON_IDS_H_
