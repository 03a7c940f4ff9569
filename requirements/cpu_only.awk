# Makes a compiled list of packages one for machines without a GPU; `make pin` runs it on torch.txt.
#
#   awk -v cpu_build=SHA256 -f cpu_only.awk all.txt > torch.txt
#
# On Linux the registry's torch asks for CUDA, gigabytes of it, and Triton. A build for the CPU asks
# for neither and lies elsewhere, so its hash is not among the registry's: it is added to them here.

/^[^ #]/ { dropped = /^(nvidia-|cuda-|triton==)/ }
!dropped { print }
/^torch==/ { print "    --hash=sha256:" cpu_build " \\" }
