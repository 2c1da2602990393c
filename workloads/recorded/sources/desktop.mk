# SPDX-License-Identifier: GPL-2.0-only
# What a user of a desktop waits for while a video plays and pages do what pages do: 24 units, compiled two at a time.
here := $(dir $(abspath $(lastword $(MAKEFILE_LIST))))
units := $(foreach a,1 2 3,$(foreach b,0 1 2 3 4 5 6 7,$(a)$(b)))

desktop.o: $(addprefix unit-,$(addsuffix .o,$(units)))
	ld -r -o $@ $^
unit-%.o: $(here)unit.c
	gcc -O2 -c -DUNIT=$* -o $@ $<
