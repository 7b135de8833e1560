// Set-up of the layer tests: a person's directory, and directories that take the changes to it.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  chownSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import {
  makeWarden,
  type OpenedLayer,
  type Warden as WardenLink,
} from '../../../src/daemons/sandboxd/adapters/warden.ts';
import { exited } from './cases.ts';
import { type Build, type PlanOptions, TestWarden, type WardenMode } from './warden.ts';

/** A person of this host: her files keep these owners, whatever a box runs as. */
export const PERSON = { uid: 1_234, gid: 1_235 };

export type LayerSetup = {
  warden: TestWarden;
  link: WardenLink;
  /** Whose the files of `lower` are: the person's, or in user mode the warden's own user's. */
  person: { uid: number; gid: number };
  lower: string;
  /** A new directory with `upper` and `work`. */
  newDir(): string;
  open(dir: string, sealed?: string[]): Promise<OpenedLayer>;
  /** Runs a shell script in a box that has the layer as /ws. */
  sh(
    layer: OpenedLayer,
    script: string,
    more?: Partial<PlanOptions>,
  ): ReturnType<TestWarden['run']>;
  /** The same, which must succeed; returns its output. */
  ok(layer: OpenedLayer, script: string, more?: Partial<PlanOptions>): Promise<string>;
  stop(): Promise<void>;
};

export async function startLayers(
  mode: WardenMode,
  options: {
    build?: Build;
    /** Before the warden starts: it sees no later mount of the host where / is private. */
    prepare?: (warden: TestWarden) => void;
  } = {},
): Promise<LayerSetup> {
  const warden = new TestWarden({
    mode,
    build: options.build ?? 'guards',
    bounds: (dir) => [
      `rw ${dir}/person`,
      `rw ${dir}/spaces`,
      'uid 61235 61236',
      'gid 61235 61236',
      `delete ${dir}/spaces`,
      ...(mode === 'root' ? [`own ${dir}/spaces`] : []),
    ],
  });
  options.prepare?.(warden);
  await warden.start();
  const link = makeWarden(warden.socket);
  const person = mode === 'root' ? PERSON : { uid: warden.uid, gid: warden.gid };
  const lower = join(warden.dir, 'person/project');
  let made = 0;
  const make = (path: string, { uid, gid }: { uid: number; gid: number }): string => {
    mkdirSync(path, { recursive: true, mode: 0o755 });
    chownSync(path, uid, gid);
    return path;
  };
  make(dirname(lower), person);
  make(lower, person);
  const run: LayerSetup['sh'] = (layer, script, more = {}) => {
    const binds = [
      { kind: 'layer' as const, src: String(layer.handle), dst: '/ws' },
      ...(more.binds ?? []),
    ];
    return warden.run(['/bin/sh', '-c', script], { ...more, binds });
  };
  return {
    warden,
    link,
    person,
    lower,
    newDir() {
      const space = join(warden.dir, `spaces/${++made}`);
      for (const name of ['..', '.', 'layers', 'layers/1', 'layers/1/upper', 'layers/1/work'])
        make(join(space, name), warden);
      return join(space, 'layers/1');
    },
    open: (dir, sealed = []) =>
      link.layer({ uid: warden.uid, gid: warden.gid, lower, sealed, dir }),
    sh: run,
    async ok(layer, script, more) {
      const outcome = exited(await run(layer, `set -e\n${script}`, more));
      if (outcome.code !== 0) throw new Error(`${script}: ${JSON.stringify(outcome)}`);
      return outcome.stdout;
    },
    async stop() {
      link.close();
      await warden.stop();
    },
  };
}

/** Runs a program as the person whose directory it is. */
export function asPerson(
  { person, lower }: LayerSetup,
  program: string,
  ...args: string[]
): string {
  const own = process.getuid?.() === person.uid ? {} : person;
  return execFileSync(program, args, {
    cwd: lower,
    encoding: 'utf8',
    env: { PATH: process.env.PATH, HOME: '/nonexistent', GIT_CONFIG_GLOBAL: '/dev/null' },
    ...own,
  });
}

/** Everything that must not change about a file: content, owner, mode, inode, links, times. */
export function fingerprint(top: string): string {
  const lines: string[] = [];
  const visit = (path: string): void => {
    const st = lstatSync(path, { bigint: true });
    const kind = st.mode & 0o170000n;
    const isFile = kind === 0o100000n;
    const content = isFile ? createHash('sha256').update(readFileSync(path)).digest('hex') : '';
    const target = kind === 0o120000n ? readlinkSync(path) : '';
    const { ino, mode, nlink, uid, gid, size, atimeNs, mtimeNs, ctimeNs } = st;
    // Reading it here changes a directory's or a link's time of last access.
    const times = isFile ? [atimeNs, mtimeNs, ctimeNs] : [mtimeNs, ctimeNs];
    lines.push([path, ino, mode, nlink, uid, gid, size, ...times, content, target].join(' '));
    if (kind === 0o040000n) for (const name of readdirSync(path).sort()) visit(join(path, name));
  };
  // Reading a file updates its time of last access once after a change.
  execFileSync('sh', ['-c', 'find "$1" -type f -exec cat {} + >/dev/null', '-', top]);
  visit(top);
  return lines.join('\n');
}

export function clear(dir: string): void {
  for (const name of readdirSync(dir)) rmSync(join(dir, name), { recursive: true, force: true });
}
