// Decodes what belongs to git repositories in a tree that agents change in place, as boxfs finds it
// again and again (native/boxfs/watch.c).
import { fault } from '../../../wire/errors.ts';
import { statusFault } from './boxfs-faults.ts';
import type { SendFrame } from './boxfs-layers.ts';
import { type Fields, fileId, frame, OP, pathField, type RootedPath, u16 } from './boxfs-wire.ts';

export type FoundFile = {
  /** In the root, lossless, as `decodePath` makes it. */
  path: string;
  type: 'file' | 'directory' | 'link' | 'other';
  mode: number;
  sizeBytes: number;
  changedNs: bigint;
  /** Device and inode, of the file and of its directory. */
  fileId: string;
  parentId: string;
  linkTarget: string;
  /** An empty file that was setuid or setgid, and is not any more. */
  isStripped: boolean;
  /** A directory that cannot be read. */
  isClosed: boolean;
};

/** `hasMore`: what is not listed comes with a later scan, when some of this is gone. */
export type WatchScan = { dirs: number; reads: number; found: FoundFile[]; hasMore: boolean };

export type BoxfsWatch = {
  /** Always of the same root: boxfs remembers its directories. */
  watch(root: string, names: readonly string[]): Promise<WatchScan>;
  /** Lets the owner read the file and remove it, whatever modes it and its directory have. */
  unlock(path: string, parentId: string): Promise<void>;
};

const TYPES = ['other', 'file', 'directory', 'link', 'other'] as const;
const FLAGS = { stripped: 1, closed: 2 } as const;
/** The time limit of boxfs, and some seconds. */
const WATCH_WAIT_MS = 45_000;

function encodeWatch(id: number, { root, path }: RootedPath, names: readonly string[]): Buffer {
  const fields = names.map((name) => pathField(name));
  return frame(OP.watch, id, [u16(root), pathField(path), u16(names.length), ...fields]);
}

function decodeFound(fields: Fields): FoundFile {
  const type = TYPES[fields.u8()];
  if (type === undefined) throw fault('bad_output', 'boxfs sent an unknown type of file');
  const flags = fields.u8();
  const mode = fields.u32();
  const sizeBytes = Math.min(fields.u64(), Number.MAX_SAFE_INTEGER);
  const changedNs = fields.bigint();
  const [fileId, parentId] = [fields.fileId(), fields.fileId()];
  const [path, linkTarget] = [fields.path(), fields.path()];
  const isStripped = (flags & FLAGS.stripped) !== 0;
  const isClosed = (flags & FLAGS.closed) !== 0;
  const stat = { type, mode, sizeBytes, changedNs, fileId, parentId };
  return { path, linkTarget, ...stat, isStripped, isClosed };
}

export function decodeWatch(fields: Fields): WatchScan {
  const [dirs, reads, count] = [fields.u32(), fields.u32(), fields.u32()];
  const hasMore = fields.u8() === 1;
  return { dirs, reads, hasMore, found: Array.from({ length: count }, () => decodeFound(fields)) };
}

export function makeBoxfsWatch(context: {
  send: SendFrame;
  locate(path: string): RootedPath;
}): BoxfsWatch {
  return {
    watch: (root, names) =>
      context.send(
        (id) => encodeWatch(id, context.locate(root), names),
        (head, fields) => {
          if (head.status !== 0) throw statusFault(head.status, root, fields.text());
          return decodeWatch(fields);
        },
        { waitMs: WATCH_WAIT_MS, name: 'looking for new git settings and hooks' },
      ),
    unlock(path, parentId) {
      const { root, path: inRoot } = context.locate(path);
      return context.send(
        (id) => frame(OP.unlock, id, [u16(root), pathField(inRoot), ...fileId(parentId)]),
        (head, fields) => {
          if (head.status !== 0) throw statusFault(head.status, path, fields.text());
        },
        { waitMs: WATCH_WAIT_MS, name: `opening ${path}` },
      );
    },
  };
}
