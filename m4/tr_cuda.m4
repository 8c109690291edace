# tr_cuda.m4 - nvcc and the CUDA runtime, linked statically: --with-cuda=DIR|yes|no|guess, --with-cuda-arch=LIST.

# TR_CUDA_ARCH: NVCC_ARCH from the list of architectures: machine code for each, and PTX of the first plain one (90a is
# not plain: its PTX runs on no other architecture). NVCC_ARCH_SM90 is the part for 90a, which *_sm90.cu are compiled for
# alone.
AC_DEFUN([TR_CUDA_ARCH], [
AC_ARG_WITH([cuda-arch],
            [AS_HELP_STRING([--with-cuda-arch=LIST], [GPU architectures, also PTX of the first (default: "80 90a")])],
            [], [with_cuda_arch="80 90a"])
NVCC_ARCH= NVCC_ARCH_SM90= tr_ptx=
for tr_arch in `AS_ECHO(["$with_cuda_arch"]) | tr ',' ' '`; do
    AS_CASE([$tr_arch],
        [*@<:@!0-9a-z@:>@*], [AC_MSG_ERROR([--with-cuda-arch: $tr_arch is no architecture such as 80 or 90a])])
    # the form -arch=sm_90a would also compile for compute_90, which lacks the instructions of 90a
    NVCC_ARCH="$NVCC_ARCH -gencode=arch=compute_$tr_arch,code=sm_$tr_arch"
    AS_CASE([$tr_arch], [90a], [NVCC_ARCH_SM90=-gencode=arch=compute_90a,code=sm_90a])
    AS_CASE([$tr_ptx$tr_arch], [*@<:@!0-9@:>@*], [], [tr_ptx=${tr_ptx:-$tr_arch}])
done
AS_IF([test -n "$tr_ptx"], [NVCC_ARCH="$NVCC_ARCH -gencode=arch=compute_$tr_ptx,code=compute_$tr_ptx"])
AC_SUBST([NVCC_ARCH])
AC_SUBST([NVCC_ARCH_SM90])
])

# TR_CUDA_FIND: NVCC and CUDA_DIR from DIR, the environment or PATH; both empty where there is none.
AC_DEFUN([TR_CUDA_FIND], [
AC_ARG_VAR([NVCC], [CUDA's compiler driver])
AS_CASE([$with_cuda],
    [yes|guess], [tr_cuda_path=${CUDA_HOME:+$CUDA_HOME/bin:}$PATH:/usr/local/cuda/bin],
    [tr_cuda_path=$with_cuda/bin])
AC_PATH_PROG([NVCC], [nvcc], [], [$tr_cuda_path])
# nvcc knows where its toolkit lies, also where the distribution scattered it
AS_IF([test -n "$NVCC"], [
    CUDA_DIR=`$NVCC --dryrun -c conftest.cu 2>&1 | $SED -n 's/^#\$ TOP=//p'`
    CUDA_DIR=`cd "$CUDA_DIR" 2>/dev/null && pwd`])
])

# TR_CUDA_CHECK: nvcc compiles for the architectures, and the C compiler links the result with the static runtime.
AC_DEFUN([TR_CUDA_CHECK], [
AC_MSG_CHECKING([whether $NVCC compiles for $with_cuda_arch])
cat > conftest.cu <<'_EOF'
__global__ void kernel(int *p) { *p = 1; }
extern "C" void launch(int *p) { kernel<<<1, 1>>>(p); }
_EOF
AS_IF([$NVCC $NVCC_HOST $NVCC_ARCH -c conftest.cu -o conftest_cuda.$OBJEXT >&AS_MESSAGE_LOG_FD 2>&1],
      [tr_cuda=yes],
      [tr_cuda_why="no: $NVCC cannot compile for $with_cuda_arch, see config.log (other ones: --with-cuda-arch=LIST)"])
AC_MSG_RESULT([$tr_cuda])
AS_IF([test $tr_cuda = yes], [
    AC_MSG_CHECKING([whether $CC links with the static CUDA runtime])
    tr_saved_CPPFLAGS=$CPPFLAGS tr_saved_LIBS=$LIBS
    CPPFLAGS="$CPPFLAGS $CUDA_CPPFLAGS" LIBS="conftest_cuda.$OBJEXT $CUDA_LIBS $LIBS"
    AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <cuda_runtime_api.h>
        void launch(int *);]], [[launch(NULL); return cudaDeviceSynchronize();]])],
        [], [tr_cuda=no tr_cuda_why="no: $CC cannot link with $CUDA_LIBS, see config.log"])
    CPPFLAGS=$tr_saved_CPPFLAGS LIBS=$tr_saved_LIBS
    AC_MSG_RESULT([$tr_cuda])])
rm -f conftest.cu conftest_cuda.$OBJEXT
])

AC_DEFUN([TR_CUDA], [
AC_ARG_WITH([cuda], [AS_HELP_STRING([--with-cuda=DIR], [CUDA toolkit below DIR; yes, no, guess (default: guess)])],
            [], [with_cuda=guess])
AC_ARG_VAR([NVCCFLAGS], [flags for nvcc (default: -O3)])
TR_CUDA_ARCH
tr_cuda=no
AS_IF([test "$with_cuda" = no], [tr_cuda_why="no: switched off by --without-cuda"], [
    TR_CUDA_FIND
    AS_IF([test -z "$NVCC"], [tr_cuda_why="no: nvcc was not found (or give --with-cuda=DIR)"], [
        # objects without C++'s runtime, so that the C compiler links them; nvcc does not know mpicc
        NVCC_HOST="-ccbin ${CXX:-g++} --compiler-options -fno-exceptions,-fno-rtti,-fno-threadsafe-statics"
        CUDA_CPPFLAGS="-isystem $CUDA_DIR/include"
        for tr_dir in "$CUDA_DIR/lib64" "$CUDA_DIR/lib" /usr/lib/`$CC -print-multiarch`; do
            AS_IF([test -f "$tr_dir/libcudart_static.a"], [CUDA_LIBDIR=$tr_dir; break])
        done
        CUDA_LIBS="-L$CUDA_LIBDIR -lcudart_static -ldl -lrt -lpthread"
        TR_CUDA_CHECK
        AS_IF([test $tr_cuda = yes], [
            tr_cuda_why="yes, $CUDA_DIR, for $with_cuda_arch${tr_ptx:+ and PTX of $tr_ptx}"])])
    AS_CASE([$tr_cuda:$with_cuda], [yes:*|no:guess], [], [AC_MSG_ERROR([CUDA was asked for: $tr_cuda_why])])])
AS_IF([test $tr_cuda = no], [NVCC= CUDA_CPPFLAGS= CUDA_LIBS=])
: "${NVCCFLAGS=-O3}"
NVCC_WARNINGS="--compiler-options -Wall"
AC_SUBST([NVCC_HOST])
AC_SUBST([CUDA_CPPFLAGS])
AC_SUBST([CUDA_LIBS])
AM_CONDITIONAL([HAVE_CUDA], [test $tr_cuda = yes])
AM_CONDITIONAL([HAVE_SM90], [test $tr_cuda = yes && test -n "$NVCC_ARCH_SM90"])
])
