// Builds everything that runs into build/: one bundle per program, the C programs, and their data.
// Every file is written completely and then renamed into place, so that a program that starts
// meanwhile sees the old one or the new one.
//   tools/build.ts [--root DIR] [--verbose]
import { spawnSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { isBuiltin } from 'node:module';
import { basename, dirname, join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import * as esbuild from 'esbuild';

type Banned = { input: RegExp; why: string };
type Program = {
  name: string;
  source: string;
  /** Modules behind `await import()` become separate files, loaded when first needed. */
  splits?: true;
  /** Some of its packages are CommonJS and load Node's own modules with `require`. */
  requires?: true;
  /** Runs for as long as the runtime: memory counts. */
  stays?: true;
  banned?: readonly Banned[];
};

const zod = { input: /node_modules\/zod\//, why: 'it costs start time; check by hand' };
const undici = { input: /node_modules\/undici\//, why: 'it costs start time; use node:http' };
const http = { input: /^node:https?$/, why: 'it triples the start time; use src/platform/http1' };
const wasm = { input: /\.wasm$|[-/]wasm[-/]/, why: 'it costs start time' };

const PROGRAMS: readonly Program[] = [
  { name: 'agentctl', source: 'src/clients/agentctl/main.ts', splits: true, banned: [zod] },
  { name: 'runner', source: 'src/runner/main.ts', banned: [zod, undici, http, wasm] },
  { name: 'embedded', source: 'src/entry/embedded.ts', splits: true, requires: true, stays: true },
  { name: 'split', source: 'src/entry/split.ts', requires: true, stays: true },
  { name: 'daemon', source: 'src/entry/daemon.ts', splits: true, requires: true, stays: true },
  { name: 'as-root', source: 'src/entry/as-root.ts', requires: true },
  { name: 'host-check', source: 'src/entry/host-check.ts', requires: true },
  { name: 'audit-verify', source: 'src/daemons/auditd-ai/verify-main.ts', requires: true },
  { name: 'mail-parser', source: 'src/daemons/maild/parser/main.ts' },
  { name: 'rehearsal', source: 'rehearsal/main.ts', requires: true, stays: true },
];

/** In C, because they start before Node could, or inside a box, or do what Node cannot. */
const NATIVE: readonly { name: string; folder: string; flags: readonly string[] }[] = [
  { name: 'warden', folder: 'native/warden', flags: [] },
  { name: 'keeper', folder: 'native/keeper', flags: [] },
  { name: 'supervisor', folder: 'native/supervisor', flags: [] },
  { name: 'overlay-marks', folder: 'native/overlay-marks', flags: [] },
  // Static: a box need not have any library.
  { name: 'boxfs', folder: 'native/boxfs', flags: ['-static'] },
];
const CC_FLAGS = ['-std=gnu11', '-D_GNU_SOURCE', '-O2', '-Wall', '-Wextra', '-Werror'];

/** Copied next to the bundles, where `new URL('./name', import.meta.url)` finds them. */
const DATA: readonly { from: string; to: string }[] = [
  { from: 'rehearsal/screenplays', to: 'screenplays' },
  { from: 'personas', to: 'personas' },
  { from: 'presets', to: 'presets' },
  { from: 'skills', to: 'skills' },
  { from: 'src/policy/base.cedar', to: 'base.cedar' },
  { from: 'src/policy/schema.cedarschema', to: 'schema.cedarschema' },
  {
    from: 'node_modules/@cedar-policy/cedar-wasm/nodejs/cedar_wasm_bg.wasm',
    to: 'cedar_wasm_bg.wasm',
  },
];

/** CommonJS packages look for data in their own directory: here that is the bundle's. */
const requireBanner =
  "const require = process.getBuiltinModule('node:module').createRequire(import.meta.url)," +
  ' __dirname = import.meta.dirname;';

/**
 * Node's own modules are loaded directly. An `import` of one reads all its exports, and so loads
 * what is otherwise loaded lazily: http brings undici, 5 MB per process.
 */
const builtins: esbuild.Plugin = {
  name: 'builtins',
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^[a-z]/ }, ({ path, kind }) => {
      const namespace = kind === 'require-call' ? 'builtin-cjs' : 'builtin';
      return isBuiltin(path) ? { path, namespace, sideEffects: false } : undefined;
    });
    onLoad({ filter: /^/, namespace: 'builtin-cjs' }, ({ path }) => ({
      contents: `module.exports = ${loadBuiltin(path)};`,
    }));
    // Each name separately and marked as pure: unused names are left out of the bundle.
    onLoad({ filter: /^/, namespace: 'builtin' }, ({ path }) => {
      const names = Object.keys(process.getBuiltinModule(path) as object);
      const lines = names
        .filter((name) => /^[A-Za-z_]\w*$/.test(name) && name !== 'default')
        .map((name) => `export const ${name} = /* @__PURE__ */ (() => builtin.${name})();`);
      return {
        contents: [
          `const builtin = ${loadBuiltin(path)};`,
          'export default builtin;',
          ...lines,
        ].join('\n'),
      };
    });
  },
};
const loadBuiltin = (path: string): string =>
  `/* @__PURE__ */ process.getBuiltinModule(${JSON.stringify(path)})`;

const { values: options } = parseArgs({
  options: { root: { type: 'string' }, verbose: { type: 'boolean' } },
});
const root = resolve(options.root ?? join(import.meta.dirname, '..'));
const out = join(root, 'build');
// Outputs have the time of the build's start: a file saved meanwhile is newer, and is built next
// time.
const startedAt = new Date();

function refuse(what: string): void {
  console.error(`build: ${what}`);
  process.exitCode = 1;
}

function writeWhole(path: string, contents: Uint8Array): void {
  mkdirSync(dirname(path), { recursive: true });
  const half = join(dirname(path), `.${basename(path)}.${process.pid}`);
  writeFileSync(half, contents);
  utimesSync(half, startedAt, startedAt);
  renameSync(half, path);
}

/** Describes each forbidden input of this bundle. */
function findBanned(program: Program, meta: esbuild.Metafile): string[] {
  return (program.banned ?? []).flatMap(({ input, why }) => {
    const imported = Object.values(meta.inputs).flatMap(({ imports }) => imports);
    const found = imported.find(({ path }) => input.test(path))?.path;
    if (found === undefined) return [];
    const by = Object.entries(meta.inputs)
      .filter(([, { imports }]) => imports.some(({ path }) => path === found))
      .map(([path]) => path);
    return [`must not contain ${found} (${why}); imported by ${by.join(', ')}`];
  });
}

function findHiddenRequire(program: Program, files: readonly esbuild.OutputFile[]): string[] {
  if (
    program.requires ||
    !files.some(({ path, text }) => path.endsWith('.mjs') && text.includes('Dynamic require of'))
  )
    return [];
  return ["one of its packages calls require(); import another, or set 'requires'"];
}

/** Returns the names of the files written; none if the bundle is refused. */
async function bundle(program: Program): Promise<string[]> {
  const result = await esbuild.build({
    absWorkingDir: root,
    entryPoints: { [program.name]: program.source },
    outdir: 'build',
    outExtension: { '.js': '.mjs' },
    bundle: true,
    splitting: program.splits ?? false,
    // Chunks are next to the bundle, so that import.meta.url is in the same directory for both.
    chunkNames: `${program.name}-[name]-[hash]`,
    platform: 'node',
    format: 'esm',
    target: 'node24',
    sourcemap: 'linked',
    sourcesContent: false,
    legalComments: 'none',
    // Less text in memory; names are kept, so that stacks are readable.
    minifyWhitespace: program.stays ?? false,
    minifySyntax: program.stays ?? false,
    plugins: program.stays ? [builtins] : [],
    banner: program.requires ? { js: requireBanner } : {},
    metafile: true,
    write: false,
    logLevel: 'warning',
  });
  const wrong = [
    ...findBanned(program, result.metafile),
    ...findHiddenRequire(program, result.outputFiles),
  ];
  for (const what of wrong) refuse(`${program.name}: ${what}`);
  if (wrong.length > 0) return [];
  // The entry comes last: until then nothing names the new chunks.
  const isEntry = (path: string) => basename(path) === `${program.name}.mjs`;
  const files = result.outputFiles.toSorted((a, b) => +isEntry(a.path) - +isEntry(b.path));
  for (const { path, contents } of files) writeWhole(path, contents);
  return files.map(({ path }) => basename(path));
}

/** Returns the chunks that the program in build/ refers to, directly or indirectly. */
function namedChunks(program: Program): Set<string> {
  const named = new Set<string>();
  const pattern = new RegExp(`(?<=\\./)${program.name}-[\\w-]+\\.mjs`, 'g');
  const follow = (name: string): void => {
    const path = join(out, name);
    if (!existsSync(path)) return;
    for (const [found] of readFileSync(path, 'utf8').matchAll(pattern)) {
      if (named.has(found)) continue;
      named.add(found).add(`${found}.map`);
      follow(found);
    }
  };
  follow(`${program.name}.mjs`);
  return named;
}

/** Chunks of the previous build stay: a program started from it may not have loaded them yet. */
function removeStaleChunks(program: Program, kept: ReadonlySet<string>): void {
  for (const name of readdirSync(out))
    if (name.startsWith(`${program.name}-`) && !kept.has(name)) rmSync(join(out, name));
}

function filesUnder(path: string): string[] {
  if (!statSync(path).isDirectory()) return [''];
  const entries = readdirSync(path, { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(path.length + 1));
}

/** Compiles only if a source is newer: the compiler takes longer than all bundles together. */
function compile({ name, folder, flags }: (typeof NATIVE)[number]): void {
  const source = join(root, folder);
  if (!existsSync(source)) return;
  const files = readdirSync(source).map((file) => join(source, file));
  const output = join(out, name);
  const newest = Math.max(...files.map((file) => statSync(file).mtimeMs));
  if (existsSync(output) && statSync(output).mtimeMs > newest) return;
  const half = join(out, `.${name}.${process.pid}`);
  const sources = files.filter((file) => file.endsWith('.c'));
  const ran = spawnSync('cc', [...CC_FLAGS, ...flags, '-o', half, ...sources], {
    encoding: 'utf8',
  });
  if (ran.status === 0) {
    renameSync(half, output);
    return;
  }
  rmSync(half, { force: true });
  const why = ran.error === undefined ? ran.stderr.trim() : 'there is no cc: install a C compiler';
  refuse(`${name}: ${why}`);
}

function copyData({ from, to }: { from: string; to: string }): void {
  const source = join(root, from);
  const target = join(out, to);
  const names = existsSync(source) ? filesUnder(source) : [];
  for (const name of names) writeWhole(join(target, name), readFileSync(join(source, name)));
  if (!existsSync(target)) return;
  for (const name of filesUnder(target)) {
    if (!names.includes(name)) rmSync(join(target, name));
  }
}

mkdirSync(out, { recursive: true });
const programs = PROGRAMS.filter(({ source }) => existsSync(join(root, source)));
if (programs.length === 0) refuse(`there is no program to build under ${root}`);
await Promise.all(
  programs.map(async (program) => {
    const before = program.splits ? namedChunks(program) : new Set<string>();
    const written = await bundle(program);
    if (program.splits && written.length > 0)
      removeStaleChunks(program, before.union(new Set(written)));
  }),
).catch((error: unknown) => {
  // esbuild has already printed errors in the sources, with file and line.
  if (!(error instanceof Error && 'errors' in error)) throw error;
  refuse('stopped at the errors above');
});
for (const data of DATA) copyData(data);
for (const program of NATIVE) compile(program);
if (options.verbose && !process.exitCode) {
  const tookMs = Date.now() - startedAt.getTime();
  console.log(`built ${programs.map(({ name }) => name).join(', ')} in ${tookMs} ms`);
}
