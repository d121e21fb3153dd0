package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"os"
)

// The file format of bbolt (magic, version 2), in the byte order of the machine.
const (
	boltMagic   = 0xED0CDAED
	boltVersion = 2

	pageHeaderSize   = 16 // id u64, flags u16, count u16, overflow u32
	elementSize      = 16
	metaSize         = 64 // its checksum last
	bucketHeaderSize = 16 // root u64, sequence u64

	branchFlag   = 0x01
	leafFlag     = 0x02
	freelistFlag = 0x10
	bucketFlag   = 0x01 // of a leaf element
	noFreelist   = ^uint64(0)

	maxDepth = 64
)

// A layout is what check found.
type layout struct {
	bytes, used int64 // of the file; of the pages that hold something
	rolledBack  bool  // the newest root was damaged, an older one stands
}

// check reads the whole file with plain reads and says whether bbolt can be trusted with it:
// every page that can be reached lies inside the file, is of the right type, is reached once,
// is not in the list of free pages, and has its elements inside itself and its keys in order.
// It returns fs.ErrNotExist, errDamaged, or another error where the file could not be read.
func check(path string) (layout, error) {
	fi, err := os.Lstat(path)
	switch {
	case err != nil:
		return layout{}, readError(err)
	case !fi.Mode().IsRegular():
		return layout{}, fmt.Errorf("%w: not a file: %s", errDamaged, fi.Mode().Type())
	case fi.Size() == 0:
		return layout{}, fmt.Errorf("%w: empty file", errDamaged)
	}
	f, err := os.Open(path)
	if err != nil {
		return layout{}, readError(err)
	}
	c := checker{f: f, size: uint64(fi.Size()), seen: map[uint64]bool{}, order: binary.NativeEndian}
	l, err := c.run()
	return l, errors.Join(err, f.Close())
}

func readError(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return notWritable(err)
}

type meta struct {
	pageSize, root, freelist, pages, tx uint64
}

type checker struct {
	f     io.ReaderAt
	size  uint64
	order binary.ByteOrder
	m     meta
	seen  map[uint64]bool // pages reached
	free  map[uint64]bool
}

func (c *checker) run() (layout, error) {
	var l layout
	var err error
	if c.m, l.rolledBack, err = c.newestMeta(); err != nil {
		return l, err
	}
	if c.m.pages > c.size/c.m.pageSize {
		return l, fmt.Errorf("%w: %d bytes for %d pages", errDamaged, c.size, c.m.pages)
	}
	if err := c.readFree(); err != nil {
		return l, err
	}
	if err := c.tree(c.m.root, nil, nil, 0); err != nil {
		return l, err
	}
	l.bytes, l.used = int64(c.size), int64(uint64(len(c.seen)+2)*c.m.pageSize)
	return l, nil
}

// newestMeta returns the newer of the two roots, and whether the other one is damaged. The
// second one stands where the first says, or where this machine's page size would put it.
func (c *checker) newestMeta() (meta, bool, error) {
	first, whole := c.meta(0)
	size := first.pageSize
	if !whole {
		size = uint64(os.Getpagesize())
	}
	second, whole2 := c.meta(size)
	switch {
	case !whole && !whole2:
		return meta{}, false, fmt.Errorf("%w: no root", errDamaged)
	case !whole || whole2 && second.tx > first.tx:
		return second, !whole, nil
	default:
		return first, !whole2, nil
	}
}

// meta reads the root at a place and says whether it is one.
func (c *checker) meta(at uint64) (meta, bool) {
	buf := make([]byte, pageHeaderSize+metaSize)
	if c.read(buf, at) != nil {
		return meta{}, false
	}
	b := buf[pageHeaderSize:]
	h := fnv.New64a()
	_, _ = h.Write(b[:metaSize-8])
	if c.u32(b) != boltMagic || c.u32(b[4:]) != boltVersion || c.u64(b[metaSize-8:]) != h.Sum64() {
		return meta{}, false
	}
	m := meta{pageSize: uint64(c.u32(b[8:])), root: c.u64(b[16:]), freelist: c.u64(b[32:]), pages: c.u64(b[40:]), tx: c.u64(b[48:])}
	return m, m.pageSize >= 1024 && m.pageSize <= 1<<20 && m.pageSize&(m.pageSize-1) == 0
}

func (c *checker) readFree() error {
	c.free = map[uint64]bool{}
	if c.m.freelist == noFreelist {
		return nil
	}
	p, err := c.page(c.m.freelist, freelistFlag)
	if err != nil {
		return err
	}
	data, n := p.body(), uint64(p.count)
	if n == 0xFFFF {
		n, data = c.u64(data), data[8:]
	}
	if n > uint64(len(data))/8 {
		return p.damaged("%d free pages", n)
	}
	for i := range n {
		id := c.u64(data[8*i:])
		if id < 2 || id >= c.m.pages || c.free[id] {
			return p.damaged("free page %d", id)
		}
		c.free[id] = true
	}
	if c.free[c.m.freelist] {
		return p.damaged("lists itself")
	}
	return nil
}

// tree checks a page and all below it; its keys lie in [low, high).
func (c *checker) tree(id uint64, low, high []byte, depth int) error {
	p, err := c.page(id, branchFlag|leafFlag)
	if err != nil {
		return err
	}
	if depth > maxDepth {
		return p.damaged("too deep")
	}
	return c.elements(p, low, high, depth)
}

func (c *checker) elements(p page, low, high []byte, depth int) error {
	elems, err := c.split(p)
	if err != nil {
		return err
	}
	for i, e := range elems {
		if i > 0 && bytes.Compare(e.key, elems[i-1].key) <= 0 || bytes.Compare(e.key, low) < 0 || high != nil && bytes.Compare(e.key, high) >= 0 {
			return p.damaged("key %d out of order", i)
		}
		next := high
		if i+1 < len(elems) {
			next = elems[i+1].key
		}
		switch {
		case p.flags == branchFlag:
			err = c.tree(e.child, e.key, next, depth+1)
		case e.flags&bucketFlag != 0:
			err = c.bucket(p, e.value, depth)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// bucket checks a bucket, which has a page of its own or lies inside the value.
func (c *checker) bucket(p page, value []byte, depth int) error {
	if len(value) < bucketHeaderSize {
		return p.damaged("short bucket")
	}
	if root := c.u64(value); root != 0 {
		return c.tree(root, nil, nil, depth+1)
	}
	inline := page{id: p.id, data: value[bucketHeaderSize:]}
	if len(inline.data) < pageHeaderSize {
		return p.damaged("short inline bucket")
	}
	inline.header(c)
	if inline.flags != leafFlag || depth > maxDepth {
		return p.damaged("inline bucket of type %#x", inline.flags)
	}
	return c.elements(inline, nil, nil, depth+1)
}

type element struct {
	flags      uint32
	child      uint64
	key, value []byte
}

func (c *checker) split(p page) ([]element, error) {
	body := p.body()
	if p.flags == branchFlag && p.count == 0 || int(p.count)*elementSize > len(body) {
		return nil, p.damaged("%d elements", p.count)
	}
	elems := make([]element, p.count)
	for i := range elems {
		b := body[i*elementSize:]
		var pos, klen, vlen uint64
		if p.flags == branchFlag {
			pos, klen, elems[i].child = uint64(c.u32(b)), uint64(c.u32(b[4:])), c.u64(b[8:])
		} else {
			elems[i].flags = c.u32(b)
			pos, klen, vlen = uint64(c.u32(b[4:])), uint64(c.u32(b[8:])), uint64(c.u32(b[12:]))
		}
		if pos < elementSize || pos+klen+vlen > uint64(len(b)) {
			return nil, p.damaged("element %d outside", i)
		}
		elems[i].key, elems[i].value = b[pos:pos+klen], b[pos+klen:pos+klen+vlen]
	}
	return elems, nil
}

// A page is its bytes, overflow included.
type page struct {
	id           uint64
	flags, count uint16
	data         []byte
}

func (p *page) header(c *checker) {
	p.flags, p.count = c.order.Uint16(p.data[8:]), c.order.Uint16(p.data[10:])
}

func (p *page) body() []byte { return p.data[pageHeaderSize:] }

func (p *page) damaged(format string, args ...any) error {
	return fmt.Errorf("%w: page %d: "+format, append([]any{errDamaged, p.id}, args...)...)
}

// page reads a page that must be of one of the types, and marks it as reached.
func (c *checker) page(id uint64, types uint16) (page, error) {
	p := page{id: id, data: make([]byte, pageHeaderSize)}
	if id < 2 || id >= c.m.pages {
		return p, p.damaged("outside of %d pages", c.m.pages)
	}
	if err := c.read(p.data, id*c.m.pageSize); err != nil {
		return p, err
	}
	p.header(c)
	overflow := uint64(c.u32(p.data[12:]))
	if c.u64(p.data) != id || p.flags&types == 0 || p.flags&(p.flags-1) != 0 || overflow >= c.m.pages-id {
		return p, p.damaged("id %d, type %#x, overflow %d", c.u64(p.data), p.flags, overflow)
	}
	for n := id; n <= id+overflow; n++ {
		if c.seen[n] || c.free[n] {
			return p, p.damaged("used twice")
		}
		c.seen[n] = true
	}
	p.data = make([]byte, (overflow+1)*c.m.pageSize)
	return p, c.read(p.data, id*c.m.pageSize)
}

// read fills buf. A short file and a bad sector are damage.
func (c *checker) read(buf []byte, at uint64) error {
	if at > c.size || uint64(len(buf)) > c.size-at {
		return fmt.Errorf("%w: ends at %d", errDamaged, c.size)
	}
	if _, err := c.f.ReadAt(buf, int64(at)); err != nil {
		return fmt.Errorf("%w: %w", errDamaged, err)
	}
	return nil
}

func (c *checker) u32(b []byte) uint32 { return c.order.Uint32(b) }
func (c *checker) u64(b []byte) uint64 { return c.order.Uint64(b) }
