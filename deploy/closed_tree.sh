# Sourced: makes a folder with bin/ and lib/ closed, so that its programs run where nothing is installed. A program finds
# lib/ by its RUNPATH $ORIGIN:$ORIGIN/../lib.

# Every Linux machine has these, newer than ours; CUDA's come from where the machine keeps them.
system='^(ld-linux-x86-64|libc|libm|libmvec|libpthread|libdl|librt|libresolv|libutil|libstdc\+\+|libgcc_s)\.so'
cuda='^lib(cudart|cublas|cublasLt|cudnn[a-z_]*|cupti|nccl|nvrtc|cuda)\.so'

needed() { readelf -d "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'; }

# Copies into TREE/lib what the files of TREE need, but for those two kinds.
collect_libraries() {
  local tree=$1 path name
  for path in $(LD_LIBRARY_PATH=$tree/lib:${LD_LIBRARY_PATH:-} ldd "$tree"/bin/* $(find "$tree/lib" -name '*.so*') |
                awk '$2 == "=>" && $3 ~ /^\// {print $3}' | sort -u); do
    name=${path##*/}
    [[ $name =~ $system || $name =~ $cuda || -e $tree/lib/$name ]] && continue
    cp -L "$path" "$tree/lib/$name"
    chmod u+w "$tree/lib/$name"
    patchelf --set-rpath '$ORIGIN' "$tree/lib/$name"
  done
}

# Fails unless each library that a file of TREE names lies in TREE or is one that the machine has.
check_closed() {
  local tree=$1 file name
  for file in "$tree"/bin/* "$tree"/lib/*; do
    for name in $(needed "$file"); do
      [[ -e $tree/lib/$name || $name =~ $system || $name =~ $cuda ]] ||
        die "${file#"$tree"/} needs $name, which is not in $tree"
    done
    [[ $file == */lib/libcoxswain* || $file == */bin/* ]] || continue
    # Not piped into grep -q: it leaves at its match, and under pipefail readelf's broken pipe is a failure.
    [[ $(readelf -d "$file") =~ RUNPATH.*'$ORIGIN:$ORIGIN/../lib' ]] ||
      die "${file#"$tree"/} has no RUNPATH \$ORIGIN:\$ORIGIN/../lib"
  done
}

# Fails unless the programs NAME... of TREE, as far as they are there, are of COMMIT (12 digits; empty: not checked).
check_commit() {
  local tree=$1 commit=$2 name
  shift 2
  [[ -n $commit ]] || return 0
  for name in "$@"; do
    [[ ! -e $tree/bin/$name ]] || grep -qa "$commit" "$tree/bin/$name" ||
      die "$name is not of commit $commit: configure and build again"
  done
}
