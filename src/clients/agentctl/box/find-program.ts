// Finds the program that a person means: as their shell would, then behind the links of package
// managers. What is not the system's goes into the box read-only: a package with those it depends
// on, or a single file, and the Node of a script; nothing else of the person's home.
import {
  accessSync,
  closeSync,
  constants,
  openSync,
  readFileSync,
  readSync,
  realpathSync,
  statSync,
} from 'node:fs';
import { delimiter, dirname, join } from 'node:path';
import { fault } from '../../../wire/errors.ts';

export type FoundProgram = {
  /** As the box sees it. */
  argv: readonly string[];
  /** Host paths for the box. */
  shown: readonly string[];
};

/** As in the contract, which imports the schema library; a test keeps them equal. */
export const PROGRAMS_DIR = '/agentd/programs';
/** Every box has what is in these. */
const IN_EVERY_BOX = ['/usr', '/bin', '/sbin', '/lib', '/lib64'];
const SHEBANG_BYTES = 256;
const SHOWN_MAX = 64;

export function findProgram(words: readonly string[], pathVariable = ''): FoundProgram {
  const [name = '', ...rest] = words;
  // A relative path is one of the workspace.
  const path = name.startsWith('/')
    ? name
    : name.includes('/')
      ? undefined
      : onPath(name, pathVariable);
  const real = path === undefined ? undefined : realOrNone(path);
  if (real === undefined || isInEveryBox(real)) return { argv: words, shown: [] };
  const shown = new Set<string>();
  showProgram(real, shown);
  const interpreter = findNode(real, pathVariable);
  if (interpreter !== undefined && !isInEveryBox(interpreter)) shown.add(interpreter);
  if (shown.size > SHOWN_MAX)
    throw fault('limit', `${name} depends on more than ${SHOWN_MAX} packages outside its own`, {
      hint: 'Install it by itself: npm install --global, or --prefix DIR.',
    });
  const program = (interpreter === undefined ? [real] : [interpreter, real]).map((file) =>
    isInEveryBox(file) ? file : `${PROGRAMS_DIR}${file}`,
  );
  return { argv: [...program, ...rest], shown: [...shown] };
}

/** Returns the file behind the links of a command. */
export function findInstalled(name: string, pathVariable = ''): string | undefined {
  const path = onPath(name, pathVariable);
  return path === undefined ? undefined : realOrNone(path);
}

function onPath(name: string, pathVariable: string): string | undefined {
  const places = pathVariable.split(delimiter).filter((dir) => dir.startsWith('/'));
  return places.map((dir) => join(dir, name)).find(isExecutable);
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}

function realOrNone(path: string): string | undefined {
  try {
    return realpathSync(path);
  } catch {
    return undefined;
  }
}

const isInEveryBox = (path: string): boolean =>
  IN_EVERY_BOX.some((dir) => path.startsWith(`${dir}/`));

/** `…/node_modules/name` or `…/node_modules/@scope/name` of a file in it. */
const PACKAGE = /^(.*\/node_modules\/(?:@[^/]+\/)?[^/@][^/]*)\/./;

function showProgram(real: string, shown: Set<string>): void {
  const dir = PACKAGE.exec(real)?.[1];
  if (dir === undefined) shown.add(real);
  else showPackage(dir, shown);
}

function showPackage(dir: string, shown: Set<string>): void {
  if (shown.has(dir) || shown.size > SHOWN_MAX) return;
  if (![...shown].some((other) => dir.startsWith(`${other}/`))) shown.add(dir);
  for (const name of listDependencies(dir)) {
    const found = resolveDependency(dir, name);
    if (found !== undefined) showPackage(found, shown);
  }
}

function listDependencies(dir: string): string[] {
  try {
    const text = readFileSync(join(dir, 'package.json'), 'utf8');
    const { dependencies = {}, optionalDependencies = {} } = JSON.parse(text) as Record<
      string,
      Record<string, string>
    >;
    return Object.keys({ ...dependencies, ...optionalDependencies });
  } catch {
    return [];
  }
}

/** As Node does: in the nearest node_modules above. Optional packages may be missing. */
function resolveDependency(from: string, name: string): string | undefined {
  for (let at = from; at !== '/'; at = dirname(at)) {
    const dir = realOrNone(join(at, 'node_modules', name));
    if (dir !== undefined) return dir;
  }
  return undefined;
}

/** Returns the person's Node if the file is a script for it. */
function findNode(file: string, pathVariable: string): string | undefined {
  const line = readStart(file).split('\n', 1)[0] ?? '';
  if (!/^#!\s*\S*[/ ]node(\s|$)/.test(line)) return undefined;
  const node = onPath('node', pathVariable);
  return node === undefined ? undefined : realOrNone(node);
}

function readStart(file: string): string {
  let descriptor: number | undefined;
  try {
    descriptor = openSync(file, 'r');
    const bytes = Buffer.alloc(SHEBANG_BYTES);
    return bytes.toString('latin1', 0, readSync(descriptor, bytes));
  } catch {
    return '';
  } finally {
    if (descriptor !== undefined) closeSync(descriptor);
  }
}
