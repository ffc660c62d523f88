// Formats of data files as datasets tells them, by the ends of their names.
// Source: datasets 5.2, packaged_modules/__init__.py and load.py infer_module_for_data_files_list.
#ifndef COXSWAIN_CONTROLLER_DATA_REPOSITORY_FILE_FORMAT_H_
#define COXSWAIN_CONTROLLER_DATA_REPOSITORY_FILE_FORMAT_H_

#include <string>
#include <string_view>
#include <vector>

namespace coxswain::data {

// Whether datasets takes the file for data: one of the ends of its name ("a.csv.gz" has two) is of
// a format that it knows.
bool IsDataFile(std::string_view path);

// The format of most of `files`: "csv", "json", "parquet", "imagefolder", ...; "tsv" is apart from
// "csv", as its files are read otherwise. "zip": archives, whose contents tell. Empty: none.
std::string FormatOf(const std::vector<std::string>& files);

// Whether the file stays where others of its split decided for `format`.
bool IsOfFormat(std::string_view path, std::string_view format);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_REPOSITORY_FILE_FORMAT_H_
