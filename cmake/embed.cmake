# Writes a C++ file with a map from file name to content.
#   cmake -DOUT=x.cc -DHEADER=path.h -DNAMESPACE=a::b -DFUNCTION=F -DFILES="a;b" -P embed.cmake
set(entries "")
foreach(file ${FILES})
  file(READ ${file} content)
  get_filename_component(name ${file} NAME)
  string(APPEND entries "      {\"${name}\", R\"~embedded~(${content})~embedded~\"},\n")
endforeach()
file(WRITE ${OUT} "#include \"${HEADER}\"

namespace ${NAMESPACE} {

// NOLINTNEXTLINE(readability-function-size)
const std::map<std::string, std::string>& ${FUNCTION}() {
  static const auto* const files = new std::map<std::string, std::string>{
${entries}  };
  return *files;
}

}  // namespace ${NAMESPACE}
")
