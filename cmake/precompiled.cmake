# Precompiled headers. What a target links says which of the large headers its files may include: gRPC, protobuf,
# Abseil with JSON. Each set is compiled with optimisation, of any level, and for tests without it, with GoogleTest.
# -DCOXSWAIN_PRECOMPILED=OFF shows whether every file includes what it needs.
option(COXSWAIN_PRECOMPILED "precompile the large headers" ON)

set(COXSWAIN_PCH_absl
  <algorithm> <chrono> <cstdint> <filesystem> <functional> <map> <memory> <mutex> <optional> <set> <sstream> <string>
  <string_view> <thread> <utility> <vector>
  <absl/status/statusor.h> <absl/strings/str_cat.h> <absl/strings/str_join.h> <nlohmann/json.hpp>)
set(COXSWAIN_PCH_protobuf ${COXSWAIN_PCH_absl}
  <coxswain/v1/jobs_service.pb.h> <coxswain/v1/plan.pb.h> <coxswain/v1/registry_service.pb.h>
  <coxswain/v1/worker_service.pb.h>)
set(COXSWAIN_PCH_grpc ${COXSWAIN_PCH_protobuf}
  <grpcpp/grpcpp.h> <coxswain/v1/jobs_service.grpc.pb.h> <coxswain/v1/registry_service.grpc.pb.h>
  <coxswain/v1/relay_service.grpc.pb.h> <coxswain/v1/worker_service.grpc.pb.h>)
set(COXSWAIN_PCH_absl_links absl::statusor absl::strings nlohmann_json::nlohmann_json)
set(COXSWAIN_PCH_protobuf_links ${COXSWAIN_PCH_absl_links} coxswain::proto)
set(COXSWAIN_PCH_grpc_links ${COXSWAIN_PCH_protobuf_links} coxswain::proto_grpc)

# Everything that `target` links, however far down, into `out`.
function(_coxswain_linked target out)
  set(pending ${target})
  set(seen)
  while(pending)
    list(POP_FRONT pending next)
    if(next IN_LIST seen OR NOT TARGET "${next}")
      continue()
    endif()
    list(APPEND seen ${next})
    foreach(property LINK_LIBRARIES INTERFACE_LINK_LIBRARIES)
      get_target_property(libraries ${next} ${property})
      if(libraries)
        list(APPEND pending ${libraries})
      endif()
    endforeach()
  endwhile()
  set(${out} ${seen} PARENT_SCOPE)
endfunction()

# The library whose precompiled headers are those of `set`, made on first use. LEVEL 0 is without optimisation.
function(_coxswain_precompiled set level out)
  set(name coxswain_pch_${set})
  set(headers ${COXSWAIN_PCH_${set}})
  set(links ${COXSWAIN_PCH_${set}_links})
  if(level EQUAL 0)
    string(APPEND name _test)
    list(APPEND headers <gtest/gtest.h>)
    list(APPEND links GTest::gtest)
  endif()
  set(${out} ${name} PARENT_SCOPE)
  if(TARGET ${name})
    return()
  endif()
  file(WRITE ${CMAKE_BINARY_DIR}/empty.cc "")
  add_library(${name} OBJECT ${CMAKE_BINARY_DIR}/empty.cc)
  if(level EQUAL 0)
    _coxswain_quick_build(${name} 0)
  else()
    _coxswain_common(${name})
  endif()
  target_link_libraries(${name} PRIVATE ${links})
  target_precompile_headers(${name} PRIVATE ${headers})
endfunction()

# Called when every target is known.
function(coxswain_precompile)
  if(NOT COXSWAIN_PRECOMPILED)
    return()
  endif()
  get_property(targets GLOBAL PROPERTY COXSWAIN_TARGETS)
  foreach(target ${targets})
    _coxswain_linked(${target} linked)
    if("gRPC::grpc++" IN_LIST linked)
      set(set grpc)
    elseif("protobuf::libprotobuf" IN_LIST linked)
      set(set protobuf)
    elseif("absl::statusor" IN_LIST linked AND "nlohmann_json::nlohmann_json" IN_LIST linked)
      set(set absl)
    else()
      continue()
    endif()
    get_target_property(level ${target} COXSWAIN_LEVEL)
    if(NOT level STREQUAL 0)
      set(level 3)
    endif()
    _coxswain_precompiled(${set} ${level} from)
    target_precompile_headers(${target} REUSE_FROM ${from})
  endforeach()
endfunction()
