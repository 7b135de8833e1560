// Git's formats for blobs, trees, commits and the index, as bytes. They are written here and not by
// git, so that memoryd starts no program. Pure.
import { createHash } from 'node:crypto';

/** `hash`: what git names it by. `bytes`: with its header, before compression. */
export type GitObject = { hash: string; bytes: Buffer };

/** The hash of a blob by its path, in which `/` separates directories. */
export type GitFiles = ReadonlyMap<string, { hash: string; size: number }>;

export type GitCommit = {
  tree: string;
  parent: string | undefined;
  author: { name: string; email: string };
  atMs: number;
  message: string;
};

const sha1 = (bytes: Uint8Array): string => createHash('sha1').update(bytes).digest('hex');

function encodeObject(type: 'blob' | 'tree' | 'commit', content: Uint8Array): GitObject {
  const bytes = Buffer.concat([Buffer.from(`${type} ${content.length}\0`), content]);
  return { hash: sha1(bytes), bytes };
}

export const encodeBlob = (text: string): GitObject => encodeObject('blob', Buffer.from(text));

type Entry = { name: string; mode: '100644' | '40000'; hash: string };

/** In git's order: a directory as if its name ended with a slash. */
const sortKey = ({ name, mode }: Entry): Buffer =>
  Buffer.from(mode === '40000' ? `${name}/` : name);

/** Returns the trees of all directories, the root's last. */
export function encodeTrees(files: GitFiles): GitObject[] {
  const entries: Entry[] = [];
  const below = new Map<string, Map<string, { hash: string; size: number }>>();
  for (const [path, file] of files) {
    const slash = path.indexOf('/');
    const name = slash < 0 ? path : path.slice(0, slash);
    if (slash < 0) {
      entries.push({ name, mode: '100644', hash: file.hash });
      continue;
    }
    const inside = below.get(name) ?? new Map<string, { hash: string; size: number }>();
    below.set(name, inside.set(path.slice(slash + 1), file));
  }
  const trees: GitObject[] = [];
  for (const [name, inside] of below) {
    trees.push(...encodeTrees(inside));
    entries.push({ name, mode: '40000', hash: trees.at(-1)!.hash });
  }
  entries.sort((a, b) => Buffer.compare(sortKey(a), sortKey(b)));
  const content = entries.map(({ name, mode, hash }) =>
    Buffer.concat([Buffer.from(`${mode} ${name}\0`), Buffer.from(hash, 'hex')]),
  );
  return [...trees, encodeObject('tree', Buffer.concat(content))];
}

export function encodeCommit({ tree, parent, author, atMs, message }: GitCommit): GitObject {
  const at = `${Math.floor(atMs / 1_000)} +0000`;
  const lines = [
    `tree ${tree}`,
    ...(parent === undefined ? [] : [`parent ${parent}`]),
    `author ${author.name} <${author.email}> ${at}`,
    `committer memoryd <memoryd@agentd.invalid> ${at}`,
    '',
    message,
  ];
  return encodeObject('commit', Buffer.from(`${lines.join('\n')}\n`));
}

const INDEX_VERSION = 2;
const INDEX_MODE = 0o100644;
const INDEX_NAME_MAX = 0xfff;
const INDEX_FIXED_BYTES = 62;
const INDEX_ALIGN_BYTES = 8;

/** Times and inodes are zero: git compares the contents then, and fills them in. */
export function encodeIndex(files: GitFiles): Buffer {
  const sorted = [...files].sort(([a], [b]) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
  const header = Buffer.alloc(12);
  header.write('DIRC');
  header.writeUInt32BE(INDEX_VERSION, 4);
  header.writeUInt32BE(sorted.length, 8);
  const entries = sorted.map(([path, { hash, size }]) => {
    const name = Buffer.from(path);
    const length = INDEX_FIXED_BYTES + name.length;
    // At least one zero ends the name.
    const entry = Buffer.alloc(length + INDEX_ALIGN_BYTES - (length % INDEX_ALIGN_BYTES));
    entry.writeUInt32BE(INDEX_MODE, 24);
    entry.writeUInt32BE(size, 36);
    entry.write(hash, 40, 'hex');
    entry.writeUInt16BE(Math.min(name.length, INDEX_NAME_MAX), 60);
    name.copy(entry, INDEX_FIXED_BYTES);
    return entry;
  });
  const bytes = Buffer.concat([header, ...entries]);
  return Buffer.concat([bytes, Buffer.from(sha1(bytes), 'hex')]);
}
