; Reading a program without Python in between, through MLIR's C functions, whose handles are one pointer each.
;
; What is read is written as words of 64 bits: pointers to names, types and attributes, which MLIR keeps once each, so
; that equal words mean equal things; and small numbers. `matchers/native.py` runs this; it says what the traits of names
; mean, and `matchers/recall.py` what the states are for.

; Words: how many there are, how many there is room for, where they are.
%list = type { i64, i64, ptr }
%recall = type {
  ptr,    ;  0  what tells the traits of a name that is new
  ptr,    ;  1  names and their traits: 8192 pairs, by a hash of the name's address
  ptr,    ;  2  131072 entries, by a hash of their words: 0, or 1 + where the entry is among the next
  %list,  ;  3  for each state how many words it was reached by, its number, and the words
  ptr,    ;  4  for each state 1 + the number of the value to look at next, 0 if that is not known
  ptr,    ;  5  for each state what was found there, 0 if nothing is known; negative where nothing has to be done
  i64,    ;  6  how many states there are, the first of them among them
  i64,    ;  7  how many there is room for
  %list,  ;  8  the words of a step from one state to the next
  %list,  ;  9  the values that an op uses
  %list,  ; 10  the ops in its body
  %list,  ; 11  the values around a place, by number
  i64     ; 12  what was found at the place that `skip` was at last, 0 if it looks new
}
%name = type { ptr, i64 }
%pair = type { ptr, ptr }

declare ptr @mlirOperationGetName(ptr)
declare i64 @mlirOperationGetNumResults(ptr)
declare ptr @mlirOperationGetResult(ptr, i64)
declare i64 @mlirOperationGetNumOperands(ptr)
declare ptr @mlirOperationGetOperand(ptr, i64)
declare i64 @mlirOperationGetNumAttributes(ptr)
declare %pair @mlirOperationGetAttribute(ptr, i64)
declare ptr @mlirOperationGetFirstRegion(ptr)
declare ptr @mlirOperationGetNextInBlock(ptr)
declare ptr @mlirRegionGetFirstBlock(ptr)
declare ptr @mlirRegionGetNextInOperation(ptr)
declare ptr @mlirBlockGetFirstOperation(ptr)
declare ptr @mlirBlockGetNextInRegion(ptr)
declare ptr @mlirBlockGetTerminator(ptr)
declare i1 @mlirValueIsABlockArgument(ptr)
declare ptr @mlirValueGetType(ptr)
declare ptr @mlirBlockArgumentGetOwner(ptr)
declare i64 @mlirBlockArgumentGetArgNumber(ptr)
declare ptr @mlirOpResultGetOwner(ptr)
declare i64 @mlirOpResultGetResultNumber(ptr)
declare ptr @mlirLinalgGetIndexingMapsAttribute(ptr)

; Add a word to a list; a list that is full still counts it.
define private void @put(ptr %list, i64 %word) {
  %count = load i64, ptr %list
  %more = add i64 %count, 1
  store i64 %more, ptr %list
  %room.at = getelementptr %list, ptr %list, i32 0, i32 1
  %room = load i64, ptr %room.at
  %fits = icmp ult i64 %count, %room
  br i1 %fits, label %write, label %end
write:
  %words.at = getelementptr %list, ptr %list, i32 0, i32 2
  %words = load ptr, ptr %words.at
  %word.at = getelementptr i64, ptr %words, i64 %count
  store i64 %word, ptr %word.at
  br label %end
end:
  ret void
}

define private void @put_pointer(ptr %list, ptr %pointer) {
  %word = ptrtoint ptr %pointer to i64
  call void @put(ptr %list, i64 %word)
  ret void
}

; Where a word stands in a list; the length of the list if it does not.
define private i64 @position(ptr %list, ptr %pointer) {
entry:
  %word = ptrtoint ptr %pointer to i64
  %count = load i64, ptr %list
  %room.at = getelementptr %list, ptr %list, i32 0, i32 1
  %room = load i64, ptr %room.at
  %short = icmp ult i64 %count, %room
  %last = select i1 %short, i64 %count, i64 %room
  %words.at = getelementptr %list, ptr %list, i32 0, i32 2
  %words = load ptr, ptr %words.at
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %step ]
  %more = icmp ult i64 %i, %last
  br i1 %more, label %compare, label %absent
compare:
  %word.at = getelementptr i64, ptr %words, i64 %i
  %there = load i64, ptr %word.at
  %same = icmp eq i64 %there, %word
  br i1 %same, label %found, label %step
step:
  %next = add i64 %i, 1
  br label %loop
found:
  ret i64 %i
absent:
  ret i64 %count
}

; What is known of an op's name: the traits that Python gave it when it was asked for the first time.
define private i64 @traits(ptr %recall, ptr %op) {
entry:
  %names.at = getelementptr %recall, ptr %recall, i32 0, i32 1
  %names = load ptr, ptr %names.at
  %name = call ptr @mlirOperationGetName(ptr %op)
  %address = ptrtoint ptr %name to i64
  %mixed = mul i64 %address, -7046029254386353131
  %first = lshr i64 %mixed, 51
  br label %probe
probe:
  %slot = phi i64 [ %first, %entry ], [ %wrapped, %step ]
  %key.at = getelementptr %name, ptr %names, i64 %slot
  %key = load ptr, ptr %key.at
  %traits.at = getelementptr %name, ptr %names, i64 %slot, i32 1
  %hit = icmp eq ptr %key, %name
  br i1 %hit, label %known, label %miss
miss:
  %empty = icmp eq ptr %key, null
  br i1 %empty, label %new, label %step
step:
  %after = add i64 %slot, 1
  %wrapped = and i64 %after, 8191
  br label %probe
new:
  %ask = load ptr, ptr %recall
  %told = call i64 %ask(ptr %name)
  store ptr %name, ptr %key.at
  store i64 %told, ptr %traits.at
  br label %known
known:
  %traits = load i64, ptr %traits.at
  ret i64 %traits
}

define private void @put_attributes(ptr %list, ptr %op) {
entry:
  %count = call i64 @mlirOperationGetNumAttributes(ptr %op)
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %one ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %one, label %end
one:
  %named = call %pair @mlirOperationGetAttribute(ptr %op, i64 %i)
  %name = extractvalue %pair %named, 0
  call void @put_pointer(ptr %list, ptr %name)
  %value = extractvalue %pair %named, 1
  call void @put_pointer(ptr %list, ptr %value)
  %next = add i64 %i, 1
  br label %loop
end:
  ret void
}

define private void @put_result_types(ptr %list, ptr %op) {
entry:
  %count = call i64 @mlirOperationGetNumResults(ptr %op)
  call void @put(ptr %list, i64 %count)
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %one ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %one, label %end
one:
  %result = call ptr @mlirOperationGetResult(ptr %op, i64 %i)
  %type = call ptr @mlirValueGetType(ptr %result)
  call void @put_pointer(ptr %list, ptr %type)
  %next = add i64 %i, 1
  br label %loop
end:
  ret void
}

; The operands, among what an op uses; and their types.
define private void @put_operands(ptr %list, ptr %uses, ptr %op) {
entry:
  %count = call i64 @mlirOperationGetNumOperands(ptr %op)
  call void @put(ptr %list, i64 %count)
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %one ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %one, label %end
one:
  %operand = call ptr @mlirOperationGetOperand(ptr %op, i64 %i)
  call void @put_pointer(ptr %uses, ptr %operand)
  %type = call ptr @mlirValueGetType(ptr %operand)
  call void @put_pointer(ptr %list, ptr %type)
  %next = add i64 %i, 1
  br label %loop
end:
  ret void
}

; A value that an op in a body uses: by its place in the body, or by its place among what the op around it uses, where
; it is added with its type if it is not there.
define private void @put_inner_operand(ptr %list, ptr %uses, ptr %inside, ptr %block, ptr %value) {
  %is_argument = call i1 @mlirValueIsABlockArgument(ptr %value)
  br i1 %is_argument, label %argument, label %result
argument:
  %owner = call ptr @mlirBlockArgumentGetOwner(ptr %value)
  %own = icmp eq ptr %owner, %block
  br i1 %own, label %own_argument, label %outside
own_argument:
  %number = call i64 @mlirBlockArgumentGetArgNumber(ptr %value)
  %argument.4 = shl i64 %number, 2
  %argument.word = or i64 %argument.4, 1
  call void @put(ptr %list, i64 %argument.word)
  ret void
result:
  %maker = call ptr @mlirOpResultGetOwner(ptr %value)
  %place = call i64 @position(ptr %inside, ptr %maker)
  %inner.count = load i64, ptr %inside
  %made_inside = icmp ult i64 %place, %inner.count
  br i1 %made_inside, label %own_result, label %outside
own_result:
  %at = call i64 @mlirOpResultGetResultNumber(ptr %value)
  %place.4 = shl i64 %place, 2
  %result.word = or i64 %place.4, 2
  call void @put(ptr %list, i64 %result.word)
  call void @put(ptr %list, i64 %at)
  ret void
outside:
  %use = call i64 @position(ptr %uses, ptr %value)
  %use.count = load i64, ptr %uses
  %used = icmp ult i64 %use, %use.count
  br i1 %used, label %put_use, label %add_use
add_use:
  call void @put_pointer(ptr %uses, ptr %value)
  %type = call ptr @mlirValueGetType(ptr %value)
  call void @put_pointer(ptr %list, ptr %type)
  br label %put_use
put_use:
  %use.4 = shl i64 %use, 2
  %use.word = or i64 %use.4, 3
  call void @put(ptr %list, i64 %use.word)
  ret void
}

; The ops of the one block in an op. False if one of them cannot be told.
define private i1 @put_body(ptr %recall, ptr %list, ptr %uses, ptr %op) {
entry:
  %inside = getelementptr %recall, ptr %recall, i32 0, i32 10
  store i64 0, ptr %inside
  %region = call ptr @mlirOperationGetFirstRegion(ptr %op)
  %no.region = icmp eq ptr %region, null
  br i1 %no.region, label %untold, label %region.there
region.there:
  %block = call ptr @mlirRegionGetFirstBlock(ptr %region)
  %no.block = icmp eq ptr %block, null
  br i1 %no.block, label %untold, label %block.there
block.there:
  %first = call ptr @mlirBlockGetFirstOperation(ptr %block)
  br label %ops
ops:
  %inner = phi ptr [ %first, %block.there ], [ %following, %results ]
  %done = icmp eq ptr %inner, null
  br i1 %done, label %told, label %one
one:
  %name = call ptr @mlirOperationGetName(ptr %inner)
  call void @put_pointer(ptr %list, ptr %name)
  %count = call i64 @mlirOperationGetNumOperands(ptr %inner)
  br label %operands
operands:
  %i = phi i64 [ 0, %one ], [ %next, %operand ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %operand, label %marks
operand:
  %value = call ptr @mlirOperationGetOperand(ptr %inner, i64 %i)
  call void @put_inner_operand(ptr %list, ptr %uses, ptr %inside, ptr %block, ptr %value)
  %next = add i64 %i, 1
  br label %operands
marks:
  %traits = call i64 @traits(ptr %recall, ptr %inner)
  %bare.bit = and i64 %traits, 1
  %bare = icmp ne i64 %bare.bit, 0
  br i1 %bare, label %results, label %attributes
attributes:
  %nested = call ptr @mlirOperationGetFirstRegion(ptr %inner)
  %flat = icmp eq ptr %nested, null
  br i1 %flat, label %attributes.put, label %untold
attributes.put:
  call void @put_attributes(ptr %list, ptr %inner)
  br label %results
results:
  call void @put_result_types(ptr %list, ptr %inner)
  call void @put_pointer(ptr %inside, ptr %inner)
  %following = call ptr @mlirOperationGetNextInBlock(ptr %inner)
  br label %ops
told:
  ret i1 true
untold:
  ret i1 false
}

; How what makes a value looks, and what it uses. False if it cannot be told.
define private i1 @look(ptr %recall, ptr %value) {
entry:
  %list = getelementptr %recall, ptr %recall, i32 0, i32 8
  %uses = getelementptr %recall, ptr %recall, i32 0, i32 9
  %is_argument = call i1 @mlirValueIsABlockArgument(ptr %value)
  br i1 %is_argument, label %argument, label %result
argument:
  %type = call ptr @mlirValueGetType(ptr %value)
  call void @put_pointer(ptr %list, ptr %type)
  ret i1 true
result:
  %op = call ptr @mlirOpResultGetOwner(ptr %value)
  %name = call ptr @mlirOperationGetName(ptr %op)
  call void @put_pointer(ptr %list, ptr %name)
  %number = call i64 @mlirOpResultGetResultNumber(ptr %value)
  call void @put(ptr %list, i64 %number)
  call void @put_result_types(ptr %list, ptr %op)
  %traits = call i64 @traits(ptr %recall, ptr %op)
  %opaque.bit = and i64 %traits, 16
  %opaque = icmp ne i64 %opaque.bit, 0
  br i1 %opaque, label %told, label %flat
flat:
  %flat.bit = and i64 %traits, 8
  %flat.only = icmp ne i64 %flat.bit, 0
  br i1 %flat.only, label %nested, label %inputs
nested:
  %region = call ptr @mlirOperationGetFirstRegion(ptr %op)
  %without = icmp eq ptr %region, null
  br i1 %without, label %inputs, label %untold
inputs:
  call void @put_operands(ptr %list, ptr %uses, ptr %op)
  %bare.bit = and i64 %traits, 1
  %bare = icmp ne i64 %bare.bit, 0
  br i1 %bare, label %told, label %marks
marks:
  %maps.bit = and i64 %traits, 2
  %maps = icmp ne i64 %maps.bit, 0
  br i1 %maps, label %maps.put, label %attributes.put
maps.put:
  %indexing = call ptr @mlirLinalgGetIndexingMapsAttribute(ptr %op)
  call void @put_pointer(ptr %list, ptr %indexing)
  br label %body
attributes.put:
  call void @put_attributes(ptr %list, ptr %op)
  br label %body
body:
  %body.bit = and i64 %traits, 4
  %open = icmp ne i64 %body.bit, 0
  br i1 %open, label %body.put, label %told
body.put:
  %read = call i1 @put_body(ptr %recall, ptr %list, ptr %uses, ptr %op)
  ret i1 %read
told:
  ret i1 true
untold:
  ret i1 false
}

; ---- states ----------------------------------------------------------------------------------------------------------

; A hash of the words of a list (multiply and fold, 64 bits).
define private i64 @hash(ptr %words, i64 %count) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %one ]
  %sum = phi i64 [ %count, %entry ], [ %folded, %one ]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %one, label %end
one:
  %word.at = getelementptr i64, ptr %words, i64 %i
  %word = load i64, ptr %word.at
  %mixed = xor i64 %sum, %word
  %product = mul i64 %mixed, -7046029254386353131
  %upper = lshr i64 %product, 32
  %folded = xor i64 %product, %upper
  %next = add i64 %i, 1
  br label %loop
end:
  ret i64 %sum
}

define private i1 @same(ptr %one, ptr %other, i64 %count) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %equal ]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %compare, label %all
compare:
  %one.at = getelementptr i64, ptr %one, i64 %i
  %other.at = getelementptr i64, ptr %other, i64 %i
  %word = load i64, ptr %one.at
  %another = load i64, ptr %other.at
  %same = icmp eq i64 %word, %another
  br i1 %same, label %equal, label %differs
equal:
  %next = add i64 %i, 1
  br label %loop
all:
  ret i1 true
differs:
  ret i1 false
}

; The state that some words lead to; -1 if there is none, or none can be added.
define private i64 @state(ptr %recall, i1 %add) {
entry:
  %list = getelementptr %recall, ptr %recall, i32 0, i32 8
  %count = load i64, ptr %list
  %words.at = getelementptr %list, ptr %list, i32 0, i32 2
  %words = load ptr, ptr %words.at
  %slots.at = getelementptr %recall, ptr %recall, i32 0, i32 2
  %slots = load ptr, ptr %slots.at
  %entries = getelementptr %recall, ptr %recall, i32 0, i32 3
  %entries.words.at = getelementptr %list, ptr %entries, i32 0, i32 2
  %entries.words = load ptr, ptr %entries.words.at
  %hash = call i64 @hash(ptr %words, i64 %count)
  br label %probe
probe:
  %at = phi i64 [ %hash, %entry ], [ %after, %step ]
  %slot = and i64 %at, 131071
  %slot.at = getelementptr i64, ptr %slots, i64 %slot
  %entry.1 = load i64, ptr %slot.at
  %empty = icmp eq i64 %entry.1, 0
  br i1 %empty, label %absent, label %compare
compare:
  %entry.0 = sub i64 %entry.1, 1
  %length.at = getelementptr i64, ptr %entries.words, i64 %entry.0
  %length = load i64, ptr %length.at
  %number.at = getelementptr i64, ptr %length.at, i64 1
  %entry.words = getelementptr i64, ptr %length.at, i64 2
  %even = icmp eq i64 %length, %count
  br i1 %even, label %words.compare, label %step
words.compare:
  %same = call i1 @same(ptr %words, ptr %entry.words, i64 %count)
  br i1 %same, label %found, label %step
step:
  %after = add i64 %at, 1
  br label %probe
found:
  %number = load i64, ptr %number.at
  ret i64 %number
absent:
  br i1 %add, label %room, label %none
room:
  %states.at = getelementptr %recall, ptr %recall, i32 0, i32 6
  %states = load i64, ptr %states.at
  %most.at = getelementptr %recall, ptr %recall, i32 0, i32 7
  %most = load i64, ptr %most.at
  %states.fit = icmp ult i64 %states, %most
  %used = load i64, ptr %entries
  %entries.room.at = getelementptr %list, ptr %entries, i32 0, i32 1
  %entries.room = load i64, ptr %entries.room.at
  %need = add i64 %count, 2
  %end = add i64 %used, %need
  %words.fit = icmp ule i64 %end, %entries.room
  %fits = and i1 %states.fit, %words.fit
  br i1 %fits, label %write, label %none
write:
  %more = add i64 %states, 1
  store i64 %more, ptr %states.at
  %used.1 = add i64 %used, 1
  store i64 %used.1, ptr %slot.at
  call void @put(ptr %entries, i64 %count)
  call void @put(ptr %entries, i64 %states)
  br label %copy
copy:
  %i = phi i64 [ 0, %write ], [ %next, %one ]
  %left = icmp ult i64 %i, %count
  br i1 %left, label %one, label %written
one:
  %word.at = getelementptr i64, ptr %words, i64 %i
  %word = load i64, ptr %word.at
  call void @put(ptr %entries, i64 %word)
  %next = add i64 %i, 1
  br label %copy
written:
  ret i64 %states
none:
  ret i64 -1
}

define private i1 @is_full(ptr %list) {
  %count = load i64, ptr %list
  %room.at = getelementptr %list, ptr %list, i32 0, i32 1
  %room = load i64, ptr %room.at
  %full = icmp ugt i64 %count, %room
  ret i1 %full
}

; The state after a look at a value, from another; -1 if there is none, or it cannot be told.
define private i64 @step(ptr %recall, i64 %state, ptr %value, i1 %add) {
entry:
  %list = getelementptr %recall, ptr %recall, i32 0, i32 8
  %uses = getelementptr %recall, ptr %recall, i32 0, i32 9
  %inside = getelementptr %recall, ptr %recall, i32 0, i32 10
  %values = getelementptr %recall, ptr %recall, i32 0, i32 11
  store i64 0, ptr %list
  store i64 0, ptr %uses
  store i64 0, ptr %inside
  call void @put(ptr %list, i64 %state)
  %told = call i1 @look(ptr %recall, ptr %value)
  br i1 %told, label %fit, label %none
fit:
  %uses.full = call i1 @is_full(ptr %uses)
  %inside.full = call i1 @is_full(ptr %inside)
  %some.full = or i1 %uses.full, %inside.full
  br i1 %some.full, label %none, label %numbers
numbers:
  %count = load i64, ptr %uses
  %uses.words.at = getelementptr %list, ptr %uses, i32 0, i32 2
  %uses.words = load ptr, ptr %uses.words.at
  br label %loop
loop:
  %i = phi i64 [ 0, %numbers ], [ %next, %numbered ]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %one, label %whole
one:
  %use.at = getelementptr ptr, ptr %uses.words, i64 %i
  %use = load ptr, ptr %use.at
  %number = call i64 @position(ptr %values, ptr %use)
  %known = load i64, ptr %values
  %is_known = icmp ult i64 %number, %known
  br i1 %is_known, label %numbered, label %new
new:
  call void @put_pointer(ptr %values, ptr %use)
  br label %numbered
numbered:
  call void @put(ptr %list, i64 %number)
  %next = add i64 %i, 1
  br label %loop
whole:
  %list.full = call i1 @is_full(ptr %list)
  %values.full = call i1 @is_full(ptr %values)
  %full = or i1 %list.full, %values.full
  br i1 %full, label %none, label %find
find:
  %found = call i64 @state(ptr %recall, i1 %add)
  ret i64 %found
none:
  ret i64 -1
}

; Begin at a place.
define void @start(ptr %recall, ptr %value) {
  %values = getelementptr %recall, ptr %recall, i32 0, i32 11
  store i64 0, ptr %values
  call void @put_pointer(ptr %values, ptr %value)
  ret void
}

; Keep that in a state a value is to be looked at, and how it looks. Returns the state after that; -1 if there is none,
; as the state asks for another value, or knows what is found there, or the value is none of those around the place.
define i64 @learn(ptr %recall, i64 %state, ptr %value) {
  %values = getelementptr %recall, ptr %recall, i32 0, i32 11
  %number = call i64 @position(ptr %values, ptr %value)
  %known = load i64, ptr %values
  %is_known = icmp ult i64 %number, %known
  br i1 %is_known, label %judge, label %none
judge:
  %found.at.0 = getelementptr %recall, ptr %recall, i32 0, i32 5
  %found.all = load ptr, ptr %found.at.0
  %found.at = getelementptr i64, ptr %found.all, i64 %state
  %found = load i64, ptr %found.at
  %open = icmp eq i64 %found, 0
  %asked.at.0 = getelementptr %recall, ptr %recall, i32 0, i32 4
  %asked.all = load ptr, ptr %asked.at.0
  %asked.at = getelementptr i64, ptr %asked.all, i64 %state
  %asked = load i64, ptr %asked.at
  %wanted = add i64 %number, 1
  %unasked = icmp eq i64 %asked, 0
  %agrees = icmp eq i64 %asked, %wanted
  %fits = or i1 %unasked, %agrees
  %can = and i1 %open, %fits
  br i1 %can, label %ask, label %none
ask:
  store i64 %wanted, ptr %asked.at
  %next = call i64 @step(ptr %recall, i64 %state, ptr %value, i1 true)
  ret i64 %next
none:
  ret i64 -1
}

; What was found at a place that looks as this one does; 0 if it looks new. The values around it are in their list.
define private i64 @walk(ptr %recall, ptr %value) {
entry:
  call void @start(ptr %recall, ptr %value)
  %values = getelementptr %recall, ptr %recall, i32 0, i32 11
  %values.words.at = getelementptr %list, ptr %values, i32 0, i32 2
  %values.words = load ptr, ptr %values.words.at
  %asked.at.0 = getelementptr %recall, ptr %recall, i32 0, i32 4
  %asked.all = load ptr, ptr %asked.at.0
  br label %loop
loop:
  %state = phi i64 [ 0, %entry ], [ %next, %step ]
  %asked.at = getelementptr i64, ptr %asked.all, i64 %state
  %asked = load i64, ptr %asked.at
  %last = icmp eq i64 %asked, 0
  br i1 %last, label %end, label %step
step:
  %number = sub i64 %asked, 1
  %at = getelementptr ptr, ptr %values.words, i64 %number
  %around = load ptr, ptr %at
  %next = call i64 @step(ptr %recall, i64 %state, ptr %around, i1 false)
  %new = icmp slt i64 %next, 0
  br i1 %new, label %none, label %loop
end:
  %found.at.0 = getelementptr %recall, ptr %recall, i32 0, i32 5
  %found.all = load ptr, ptr %found.at.0
  %found.at = getelementptr i64, ptr %found.all, i64 %state
  %found = load i64, ptr %found.at
  ret i64 %found
none:
  ret i64 0
}

; From one of some places on, the first at which something has to be done; how many there are if there is none.
define i64 @skip(ptr %recall, ptr %places, i64 %from, i64 %count) {
entry:
  %found.at = getelementptr %recall, ptr %recall, i32 0, i32 12
  br label %loop
loop:
  %i = phi i64 [ %from, %entry ], [ %next, %quiet ]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %one, label %end
one:
  %place.at = getelementptr ptr, ptr %places, i64 %i
  %place = load ptr, ptr %place.at
  %found = call i64 @walk(ptr %recall, ptr %place)
  store i64 %found, ptr %found.at
  %nothing = icmp slt i64 %found, 0
  br i1 %nothing, label %quiet, label %end
quiet:
  %next = add i64 %i, 1
  br label %loop
end:
  ret i64 %i
}

; ---- places ----------------------------------------------------------------------------------------------------------

; The traits of the op whose result is the first that a body yields; none where there is no such op.
define private i64 @ending(ptr %recall, ptr %op) {
  %region = call ptr @mlirOperationGetFirstRegion(ptr %op)
  %none = icmp eq ptr %region, null
  br i1 %none, label %nothing, label %blocks
blocks:
  %block = call ptr @mlirRegionGetFirstBlock(ptr %region)
  %empty = icmp eq ptr %block, null
  br i1 %empty, label %nothing, label %terminated
terminated:
  %last = call ptr @mlirBlockGetTerminator(ptr %block)
  %open = icmp eq ptr %last, null
  br i1 %open, label %nothing, label %yields
yields:
  %count = call i64 @mlirOperationGetNumOperands(ptr %last)
  %some = icmp sgt i64 %count, 0
  br i1 %some, label %first, label %nothing
first:
  %value = call ptr @mlirOperationGetOperand(ptr %last, i64 0)
  %is_argument = call i1 @mlirValueIsABlockArgument(ptr %value)
  br i1 %is_argument, label %nothing, label %made
made:
  %maker = call ptr @mlirOpResultGetOwner(ptr %value)
  %traits = call i64 @traits(ptr %recall, ptr %maker)
  ret i64 %traits
nothing:
  ret i64 0
}

; Whether an op has a wanted name, or one that its body ends with has. Of several results only the first is judged, so
; that such an op is always wanted.
define private i1 @is_wanted(ptr %recall, ptr %op, i64 %traits, i64 %results) {
entry:
  %wanted.bit = and i64 %traits, 32
  %wanted = icmp ne i64 %wanted.bit, 0
  br i1 %wanted, label %yes, label %structure
structure:
  %ends.bit = and i64 %traits, 128
  %ends = icmp ne i64 %ends.bit, 0
  br i1 %ends, label %several, label %no
several:
  %one = icmp eq i64 %results, 1
  br i1 %one, label %inner, label %yes
inner:
  %end = call i64 @ending(ptr %recall, ptr %op)
  %end.bit = and i64 %end, 32
  %end.wanted = icmp ne i64 %end.bit, 0
  ret i1 %end.wanted
yes:
  ret i1 true
no:
  ret i1 false
}

; The results of the wanted ops in an op, in the order of the program.
define void @pick(ptr %recall, ptr %op, ptr %places) {
entry:
  %traits = call i64 @traits(ptr %recall, ptr %op)
  %count = call i64 @mlirOperationGetNumResults(ptr %op)
  %makes = icmp sgt i64 %count, 0
  br i1 %makes, label %judge, label %deeper
judge:
  %wanted = call i1 @is_wanted(ptr %recall, ptr %op, i64 %traits, i64 %count)
  br i1 %wanted, label %results, label %deeper
results:
  %i = phi i64 [ 0, %judge ], [ %next, %take ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %take, label %deeper
take:
  %result = call ptr @mlirOperationGetResult(ptr %op, i64 %i)
  call void @put_pointer(ptr %places, ptr %result)
  %next = add i64 %i, 1
  br label %results
deeper:
  %closed.bit = and i64 %traits, 64
  %closed = icmp ne i64 %closed.bit, 0
  br i1 %closed, label %end, label %regions.first
regions.first:
  %region.first = call ptr @mlirOperationGetFirstRegion(ptr %op)
  br label %regions
regions:
  %region = phi ptr [ %region.first, %regions.first ], [ %region.next, %blocks.end ]
  %regions.done = icmp eq ptr %region, null
  br i1 %regions.done, label %end, label %blocks.first
blocks.first:
  %block.first = call ptr @mlirRegionGetFirstBlock(ptr %region)
  br label %blocks
blocks:
  %block = phi ptr [ %block.first, %blocks.first ], [ %block.next, %ops.end ]
  %blocks.done = icmp eq ptr %block, null
  br i1 %blocks.done, label %blocks.end, label %ops.first
ops.first:
  %op.first = call ptr @mlirBlockGetFirstOperation(ptr %block)
  br label %ops
ops:
  %child = phi ptr [ %op.first, %ops.first ], [ %op.next, %visit ]
  %ops.done = icmp eq ptr %child, null
  br i1 %ops.done, label %ops.end, label %visit
visit:
  call void @pick(ptr %recall, ptr %child, ptr %places)
  %op.next = call ptr @mlirOperationGetNextInBlock(ptr %child)
  br label %ops
ops.end:
  %block.next = call ptr @mlirBlockGetNextInRegion(ptr %block)
  br label %blocks
blocks.end:
  %region.next = call ptr @mlirRegionGetNextInOperation(ptr %region)
  br label %regions
end:
  ret void
}
