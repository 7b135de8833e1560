// A file stamp tells cheaply whether a file is the one that was read before, as git's index does.
// No program sets inode, birth time or change time, so a file that was copied, restored or edited
// has another stamp.
import fs from 'node:fs';

/** Times are in nanoseconds, as decimal text. */
export type FileStamp = {
  name: string;
  size_bytes: number;
  inode: string;
  born: string;
  modified: string;
  changed: string;
};

export function stampOf(name: string, file: string | number): FileStamp {
  const stat =
    typeof file === 'number'
      ? fs.fstatSync(file, { bigint: true })
      : fs.statSync(file, { bigint: true });
  return {
    name,
    size_bytes: Number(stat.size),
    inode: String(stat.ino),
    // Where the file system has no birth time, this is the change time: then nothing that grew
    // matches, and all of it is read again.
    born: String(stat.birthtimeNs),
    modified: String(stat.mtimeNs),
    changed: String(stat.ctimeNs),
  };
}

export const isUnchanged = (now: FileStamp, before: FileStamp): boolean =>
  now.name === before.name &&
  isSameFile(now, before) &&
  now.size_bytes === before.size_bytes &&
  now.modified === before.modified &&
  now.changed === before.changed;

/** True for one file, which may have grown and been renamed. */
export const isSameFile = (now: FileStamp, before: FileStamp): boolean =>
  now.inode === before.inode && now.born === before.born;
