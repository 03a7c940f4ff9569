# Makes a compiled list of packages one for machines without a GPU; `make pin` runs it on torch.txt.
#
#   awk -v cpu_build=SHA256 -f cpu_only.awk all.txt > torch.txt
#
# On Linux the registry's torch asks for CUDA, gigabytes of it, and for Triton. A build for the CPU
# asks for neither. It has a version of its own, ending in +cpu, and is asked for by that: were both
# builds allowed, pip would prefer the registry's, whose hash it knows before it has the file.

/^[^ #]/ { dropped = /^(nvidia-|cuda-|triton==)/ }
/^torch==/ {
    print $1 "+cpu ; sys_platform == 'linux' \\\n    --hash=sha256:" cpu_build
    $0 = $1 " ; sys_platform != 'linux' \\"
}
!dropped
