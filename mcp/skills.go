package mcp

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"unicode/utf8"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// Skills are folders of instructions for a model, served as resources (SEP-2640, Skills Extension).
// Each has a SKILL.md at its root.

// A Skill is the entry of one skill: the front matter of its SKILL.md and all its files.
type Skill struct {
	URI         string          `json:"uri"`         // of its SKILL.md
	Frontmatter jsonrpc.Raw     `json:"frontmatter"` // an object with at least name and description
	Resources   []SkillResource `json:"resources"`
}

// A SkillResource is one file of a skill.
type SkillResource struct {
	URI    string `json:"uri"`
	Digest string `json:"digest"` // "sha256:" and 64 hexadecimal digits
	Size   int64  `json:"size"`   // bytes
}

// Limits of a skill (SEP-2640, Limits).
const (
	maxSkillFiles = 512
	maxSkillBytes = 16 << 20
)

const (
	skillScheme   = "skill://"
	skillFile     = "SKILL.md"
	directoryType = "inode/directory"
)

// skillSet contains the skills of a server.
type skillSet struct {
	offered atomic.Bool
	entries registry[Skill]
	dirs    registry[*directory]
}

// A directory is one folder, stored by its URI.
type directory struct{ children registry[Resource] }

func (k *skillSet) settings() Settings { return Settings{"directoryRead": true} }

var skillName = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

// AddSkill adds the skill in files at a path such as "acme/billing/refunds", whose last part is the
// name of the skill. Its files become resources. They are read once, by this call. It returns an
// error if there is no SKILL.md with that name and a description, if the skill has more than 512
// files or 16 MiB, or if a file cannot be read.
func (s *Server) AddSkill(at string, files fs.FS) error {
	name := path.Base(at)
	if len(name) > 64 || !skillName.MatchString(name) || !fs.ValidPath(at) {
		return fmt.Errorf("mcp: skill %q: the last part of the path must be a name of a-z, 0-9 and single dashes", at)
	}
	head, err := fs.ReadFile(files, skillFile)
	if err != nil {
		return fmt.Errorf("mcp: skill %s: %w", at, err)
	}
	front, err := frontmatter(string(head))
	if err != nil {
		return fmt.Errorf("mcp: skill %s: %w", at, err)
	}
	description, _ := front["description"].(string)
	if front["name"] != name || description == "" {
		return fmt.Errorf("mcp: skill %s: its front matter needs the name %q and a description", at, name)
	}
	text, err := encode(front)
	if err != nil {
		return fmt.Errorf("mcp: skill %s: %w", at, err)
	}
	skill := Skill{URI: skillScheme + at + "/" + skillFile, Frontmatter: text}
	contents := map[string][]byte{}
	total := 0
	err = fs.WalkDir(files, ".", func(file string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		body, err := fs.ReadFile(files, file)
		if err != nil {
			return err
		}
		total += len(body)
		if len(contents) >= maxSkillFiles || total > maxSkillBytes {
			return fmt.Errorf("more than %d files or %d bytes", maxSkillFiles, maxSkillBytes)
		}
		uri := skillScheme + at + "/" + escapePath(file)
		contents[file] = body
		sum := sha256.Sum256(body)
		skill.Resources = append(skill.Resources, SkillResource{URI: uri, Digest: "sha256:" + hex.EncodeToString(sum[:]), Size: int64(len(body))})
		return nil
	})
	if err != nil {
		return fmt.Errorf("mcp: skill %s: %w", at, err)
	}
	for file, body := range contents {
		r := Resource{URI: skillScheme + at + "/" + escapePath(file), Name: path.Base(file), MIMEType: mimeOf(file, body), Size: new(int64(len(body)))}
		if file == skillFile {
			r.Name, r.Description = name, description
		}
		mimeType := r.MIMEType
		if err := s.AddResource(r, func(_ context.Context, req *Request) (*ReadResourceResult, error) {
			if utf8.Valid(body) {
				return TextResource(req, mimeType, string(body)), nil
			}
			return BlobResource(req, mimeType, body), nil
		}); err != nil {
			return err
		}
		s.skills.addFile(r)
	}
	s.skills.entries.put(skill.URI, skill, func(Version) jsonrpc.Raw { return mustEncode(skill) })
	s.skills.offered.Store(true)
	return nil
}

// addFile adds a file to its folder, and each folder to its parent.
func (k *skillSet) addFile(r Resource) {
	for {
		rest, _ := strings.CutPrefix(r.URI, skillScheme)
		i := strings.LastIndexByte(rest, '/')
		if i < 0 {
			return
		}
		uri := skillScheme + rest[:i]
		d, ok := k.dirs.get(uri)
		if !ok {
			d = &directory{}
			k.dirs.put(uri, d, nil)
		}
		child := r
		d.children.put(child.URI, child, func(v Version) jsonrpc.Raw { return mustEncode(child) })
		r = Resource{URI: uri, Name: path.Base(uri), MIMEType: directoryType}
	}
}

// escapePath escapes a file path for a URI.
func escapePath(file string) string {
	var out strings.Builder
	for _, c := range []byte(file) {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-._~/", c) >= 0 {
			out.WriteByte(c)
		} else {
			fmt.Fprintf(&out, "%%%02X", c)
		}
	}
	return out.String()
}

// mimeTypes are the MIME types of files that skills usually contain. The system's table is not
// used, because results would differ between machines.
var mimeTypes = map[string]string{
	".md": "text/markdown", ".txt": "text/plain", ".json": "application/json", ".yaml": "application/yaml", ".yml": "application/yaml",
	".py": "text/x-python", ".sh": "text/x-shellscript", ".js": "text/javascript", ".html": "text/html", ".css": "text/css", ".csv": "text/csv",
	".xml": "application/xml", ".png": "image/png", ".jpg": "image/jpeg", ".gif": "image/gif", ".svg": "image/svg+xml", ".pdf": "application/pdf",
}

func mimeOf(file string, body []byte) string {
	if known, ok := mimeTypes[strings.ToLower(path.Ext(file))]; ok {
		return known
	}
	if utf8.Valid(body) {
		return "text/plain"
	}
	return "application/octet-stream"
}

// handleSkills handles the methods of the skills extension.
func (s *Server) handleSkills(ctx context.Context, r *Request) (body any, cache *Caching, known bool, err error) {
	switch r.Method {
	case MethodSkillsList, MethodSkillsGet, MethodDirectoryRead:
	default:
		return nil, nil, false, nil
	}
	if !s.skills.offered.Load() {
		return nil, nil, false, nil
	}
	visible := s.visible(ctx, r)
	if r.Method == MethodSkillsList {
		body, err = asBody(listPage("skills", r.p.cursor, s.opts.PageSize, r.version, visible, &s.skills.entries))
		return body, s.listCache(), true, err
	}
	uri, _ := textOf(r.p.uri)
	if r.Method == MethodSkillsGet {
		skill, ok := s.skills.entries.get(uri)
		if !ok || visible != nil && !visible(uri) {
			return nil, nil, true, invalidParams("uri is not that of a skill")
		}
		return struct {
			Skill Skill `json:"skill"`
		}{skill}, s.listCache(), true, nil
	}
	d, ok := s.skills.dirs.get(uri)
	if !ok {
		return nil, nil, true, invalidParams("uri is not that of a directory")
	}
	body, err = asBody(listPage("resources", r.p.cursor, s.opts.PageSize, r.version, visible, &d.children))
	return body, s.listCache(), true, err
}

// ListSkillsResult is one page of skills.
type ListSkillsResult struct {
	Skills     []Skill `json:"skills"`
	NextCursor *string `json:"nextCursor,omitzero"`
	Caching
	Meta Meta `json:"_meta,omitzero"`
}

// ListSkills returns one page of skills. The list may lack skills that [Client.GetSkill] finds.
func (c *Client) ListSkills(ctx context.Context, p *ListParams) (*ListSkillsResult, error) {
	return list[ListSkillsResult](ctx, c, MethodSkillsList, p)
}

// GetSkill returns the entry of the skill whose SKILL.md has this URI.
func (c *Client) GetSkill(ctx context.Context, uri string) (*Skill, error) {
	var out struct {
		Skill Skill `json:"skill"`
	}
	if err := c.Call(ctx, MethodSkillsGet, SubscribeParams{URI: uri}, &out); err != nil {
		return nil, err
	}
	return &out.Skill, nil
}

// ReadDirectory returns one page of the entries in a directory of a skill.
func (c *Client) ReadDirectory(ctx context.Context, uri string, cursor *string) (*ListResourcesResult, error) {
	var out ListResourcesResult
	err := c.Call(ctx, MethodDirectoryRead, struct {
		URI    string  `json:"uri"`
		Cursor *string `json:"cursor,omitzero"`
	}{uri, cursor}, &out)
	return &out, err
}

// ErrSkillChanged reports that a file does not match the entry of its skill: it was changed, or it
// is not one of the skill's files. Fetch the entry again.
var ErrSkillChanged = errors.New("mcp: the file does not match the skill's entry")

// ReadSkillFile reads one file of a skill and compares it with the skill's entry. A file that does
// not match is not returned.
func (c *Client) ReadSkillFile(ctx context.Context, skill *Skill, uri string) ([]byte, error) {
	i := slices.IndexFunc(skill.Resources, func(r SkillResource) bool { return r.URI == uri })
	if i < 0 {
		return nil, fmt.Errorf("%w: %s is not in it", ErrSkillChanged, uri)
	}
	result, err := c.ReadResource(ctx, uri, nil)
	if err != nil {
		return nil, err
	}
	if len(result.Contents) != 1 {
		return nil, fmt.Errorf("%w: %s has %d contents", ErrSkillChanged, uri, len(result.Contents))
	}
	body := result.Contents[0].Blob
	if body == nil {
		body = []byte(result.Contents[0].Text)
	}
	sum := sha256.Sum256(body)
	if skill.Resources[i].Digest != "sha256:"+hex.EncodeToString(sum[:]) {
		return nil, fmt.Errorf("%w: digest of %s", ErrSkillChanged, uri)
	}
	if uri == skill.URI {
		front, err := frontmatter(string(body))
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrSkillChanged, err)
		}
		own, _ := canonical(mustEncode(front)) // an encoded value always has a canonical form
		said, err := canonical(skill.Frontmatter)
		if err != nil || string(own) != string(said) {
			return nil, fmt.Errorf("%w: front matter of %s", ErrSkillChanged, uri)
		}
	}
	return body, nil
}
