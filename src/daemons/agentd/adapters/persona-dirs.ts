// Reads and watches the directories of personas: the package's, the site's and the operator's.
import { statSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { Clock } from '../../../platform/clock.ts';
import { sha256Hex } from '../../../platform/json.ts';
import type { Log } from '../../../platform/log.ts';
import { makeMutex } from '../../../platform/mutex.ts';
import { watchDir } from '../../../platform/watch-dir.ts';
import type { PersonaSource } from '../../../wire/agentd/personas.ts';
import type { FileProblem } from '../../../wire/primitives.ts';
import {
  buildLibrary,
  NO_PERSONAS,
  PERSONA_FOLDERS,
  type PersonaLibrary,
} from '../personas/library.ts';
import { PERSONA_BYTES_MAX, type PersonaResult, readPersona } from '../personas/persona-file.ts';
import { readTextFile } from './read-text.ts';

/** In the order of the layers. */
export type LayeredRoots = readonly { source: PersonaSource; dir: string }[];

export type PersonaDirs = {
  current(): PersonaLibrary;
  /** Resolves when a change that was found has been reported. */
  rescan(): Promise<void>;
  close(): void;
};

const NAME = /^[a-z][a-z0-9_-]{0,62}\.md$/;
const FILES_MAX = 2_000;
const POLL_INTERVAL_MS = 5_000;
const SETTLE_MS = 100;

type Found = { ref: string; source: PersonaSource; file: string; stamp: string };

export async function openPersonaDirs(options: {
  roots: LayeredRoots;
  clock: Clock;
  log: Log;
  /** If it fails, it is called again at the next scan. */
  onChange: (library: PersonaLibrary) => Promise<void>;
}): Promise<PersonaDirs> {
  const { roots, clock, log, onChange } = options;
  const withLock = makeMutex();
  let cache = new Map<string, { stamp: string; result: PersonaResult; ref: string }>();
  let current = NO_PERSONAS;
  let closed = false;

  const read = async (): Promise<PersonaLibrary> => {
    const { found, stray } = await listFiles(roots);
    const next: typeof cache = new Map();
    for (const { ref, source, file, stamp } of found) {
      const before = cache.get(file);
      const result = before?.stamp === stamp ? before.result : await readFile(file, source);
      if (result !== undefined) next.set(file, { stamp, result, ref });
    }
    cache = next;
    const readings = [...next.values()];
    const identity = readings.map(({ ref, result }) =>
      result.ok ? `${ref} ${result.persona.file} ${result.persona.sha256}` : JSON.stringify(result),
    );
    const version = sha256Hex(JSON.stringify([identity, stray]));
    return buildLibrary(readings, { stray, version });
  };
  const rescan = (): Promise<void> =>
    withLock(async () => {
      const library = await read();
      if (closed || library.version === current.version) return;
      const before = current;
      current = library;
      try {
        await onChange(library);
      } catch (error) {
        current = { ...before, version: '' };
        throw error;
      }
    });
  const rescanInBackground = (): void => {
    rescan().catch((error: unknown) => log.error('applying changed personas failed', { error }));
  };
  // Watched before they are read, so that a change in between is not missed.
  const watched = roots.flatMap(({ dir }, i) =>
    ['', ...PERSONA_FOLDERS].map((folder) =>
      watchDir({
        dir: join(dir, folder),
        clock,
        settleMs: SETTLE_MS,
        pollIntervalMs: POLL_INTERVAL_MS,
        onChange(why) {
          if (why === 'event' || (i === 0 && folder === '')) rescanInBackground();
        },
      }),
    ),
  );
  current = await read();
  return {
    current: () => current,
    rescan,
    close() {
      closed = true;
      for (const watcher of watched) watcher.close();
    },
  };
}

async function readFile(file: string, source: PersonaSource): Promise<PersonaResult | undefined> {
  const reading = await readTextFile(file, { bytesMax: PERSONA_BYTES_MAX });
  if (reading === undefined) return undefined;
  if (!reading.ok) return { ok: false, problems: [reading.problem] };
  return readPersona(reading.text, source, file);
}

async function listFiles(roots: LayeredRoots): Promise<{ found: Found[]; stray: FileProblem[] }> {
  const found: Found[] = [];
  const stray: FileProblem[] = [];
  const add = (entry: Omit<Found, 'stamp'>): void => {
    if (found.length < FILES_MAX) found.push({ ...entry, stamp: readStamp(entry.file) });
    else if (found.length === FILES_MAX) stray.push(tooManyProblem(entry.file));
  };
  for (const { source, dir } of roots) {
    const listed = await listNames(dir);
    if (listed.problem !== undefined) stray.push(listed.problem);
    if (listed.names.includes('base.md')) add({ ref: 'base', source, file: join(dir, 'base.md') });
    for (const folder of PERSONA_FOLDERS) {
      const inside = await listNames(join(dir, folder));
      if (inside.problem !== undefined) stray.push(inside.problem);
      for (const name of inside.names) {
        const file = join(dir, folder, name);
        if (NAME.test(name)) add({ ref: `${folder}/${name.slice(0, -3)}`, source, file });
        else if (/^[^.].*\.md$/.test(name)) stray.push(strayProblem(file));
      }
    }
  }
  return { found, stray };
}

/** A missing directory has no files. */
async function listNames(dir: string): Promise<{ names: string[]; problem?: FileProblem }> {
  try {
    return { names: (await readdir(dir)).sort() };
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'ENOTDIR') return { names: [] };
    const hint = 'Make it readable for agentd.';
    return {
      names: [],
      problem: { file: dir, line: null, message: `cannot be read: ${message}`, hint },
    };
  }
}

function readStamp(file: string): string {
  try {
    const { dev, ino, size, mtimeNs, ctimeNs, mode } = statSync(file, { bigint: true });
    return `${dev} ${ino} ${size} ${mtimeNs} ${ctimeNs} ${mode}`;
  } catch (error) {
    return (error as Error).message;
  }
}

const strayProblem = (file: string): FileProblem => ({
  file,
  line: null,
  message: 'its name is not that of a persona',
  hint: 'Use lowercase letters, digits and dashes, as in security-auditor.md.',
});

const tooManyProblem = (file: string): FileProblem => ({
  file,
  line: null,
  message: `not read: there are more than ${FILES_MAX} personas`,
  hint: 'Remove those that no manifest names.',
});
