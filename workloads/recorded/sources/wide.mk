# SPDX-License-Identifier: GPL-2.0-only
# A build that can keep many CPUs busy: 1024 units in 32 parts, each made by a make of its own, so that no single process
# has to start them all. Parts are joined, and then all of them. In a directory of its own:
#   make -s -f wide.mk -j2000
here := $(dir $(abspath $(lastword $(MAKEFILE_LIST))))
# Its temporary files are beside the others: in a tmpfs nobody waits for a disk.
export TMPDIR := $(CURDIR)

digits := 0 1 2 3
parts := $(foreach a,$(digits),$(foreach b,0 1 2 3 4 5 6 7,$(a)$(b)))
units := $(foreach a,$(digits),$(foreach b,0 1 2 3 4 5 6 7,$(a)$(b)))

ifdef PART
part-$(PART).o: $(addprefix part-$(PART)-,$(addsuffix .o,$(units)))
	ld -r -o $@ $^
part-$(PART)-%.o: $(here)unit.c
	gcc -O1 -c -DUNIT=1$(PART)$* -o $@ $<
else
all.o: $(addprefix make-,$(parts))
	ld -r -o $@ $(addprefix part-,$(addsuffix .o,$(parts)))
make-%:
	+$(MAKE) -s -f $(here)wide.mk PART=$*
endif
