#!/bin/sh
# Starts deploy/systemd/likewise.service under a systemd of its own, and runs a program beside it.
#
#   unshare --mount sh boot_unit.sh FOLDER ROOT PYTHON PACKAGES PROGRAM
#
# systemd is the first process of new namespaces. Its root is a copy-on-write view of this machine's,
# its units are those in FOLDER/units, and the settings in FOLDER/etc are /etc/likewise. PYTHON and
# PACKAGES are the interpreter's prefix and its packages, which /opt/likewise/bin/likewise uses.
set -e
if [ "$1" != inside ]; then
    mount --make-rprivate /
    mount -t tmpfs tmpfs "$1/disk"
    mkdir "$1/disk/upper" "$1/disk/work" "$1/disk/root" "$1/disk/cgroup"
    mount -t overlay -o "lowerdir=/,upperdir=$1/disk/upper,workdir=$1/disk/work" root "$1/disk/root"
    mount -t cgroup2 cgroup2 "$1/disk/cgroup"
    group="$1/disk/cgroup/likewise-test-$$"
    mkdir "$group"
    sh -c 'echo 0 > "$0/cgroup.procs" && exec "$@"' "$group" \
        unshare --mount --pid --fork --uts --ipc --cgroup --kill-child sh "$0" inside "$@" || true
    find "$group" -depth -type d -exec rmdir {} +
    exit
fi
shift
root="$1/disk/root"
mount -t proc proc "$root/proc"
mount -o bind,ro "$root/proc/sys" "$root/proc/sys"
mount -t sysfs -o ro sysfs "$root/sys"
mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
for one in run tmp dev; do mount -t tmpfs -o mode=0755 tmpfs "$root/$one"; done
mkdir "$root/dev/pts" "$root/dev/shm" "$root/dev/mqueue"
mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
mount -t mqueue mqueue "$root/dev/mqueue"
for one in null zero full random urandom tty; do
    touch "$root/dev/$one"
    mount --bind "/dev/$one" "$root/dev/$one"
done
mkdir -p "$root/opt/likewise/bin" "$root/etc/likewise" "$root/run/units"
for one in python packages source; do mkdir "$root/opt/likewise/$one"; done
mount --bind "$3" "$root/opt/likewise/python"
mount --bind "$4" "$root/opt/likewise/packages"
mount --bind "$2/src" "$root/opt/likewise/source"
cp "$1"/etc/* "$root/etc/likewise"
cp "$1"/units/* "$root/run/units"
cp "$5" "$root/run/program.py"
cat > "$root/opt/likewise/bin/likewise" <<'END'
#!/bin/sh
export LD_LIBRARY_PATH=/opt/likewise/python/lib
export PYTHONPATH=/opt/likewise/source:/opt/likewise/packages
exec /opt/likewise/python/bin/python3 -m likewise "$@"
END
chmod 755 "$root/opt/likewise/bin/likewise"
cd "$root"
mkdir before
pivot_root . before
umount -l /before
mount --make-rshared /  # systemd hands credentials to a unit by a mount
(
    set +e
    until systemctl show --property=Version > /dev/null 2>&1; do sleep 0.1; done
    LD_LIBRARY_PATH=/opt/likewise/python/lib /opt/likewise/python/bin/python3 /run/program.py
    systemctl --force --force poweroff
) &
export container=other SYSTEMD_UNIT_PATH=/run/units
exec /lib/systemd/systemd --system --unit=default.target --log-target=null --show-status=no
