// Compiles and runs the load and the provider in C (processes/http-load.c), for benchmarks of
// throughput: in Node they would take a third of the processor.
import { spawn, spawnSync } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { end, keep } from './children.ts';

const BUILD = join(import.meta.dirname, '..', 'build', 'bench');

const compiled = new Set<string>();

/** Compiles processes/NAME.c, once, and returns the program. */
export function compileProcess(name: string): string {
  const program = join(BUILD, name);
  if (compiled.has(name)) return program;
  mkdirSync(BUILD, { recursive: true });
  const source = join(import.meta.dirname, 'processes', `${name}.c`);
  const flags = ['-O2', '-std=gnu17', '-Wall', '-Wextra', '-Werror'];
  const ran = spawnSync('cc', [...flags, '-o', program, source], { encoding: 'utf8' });
  if (ran.status !== 0) throw new Error(`compiling ${name} failed: ${ran.stderr}`);
  compiled.add(name);
  return program;
}

/** Resolves to the first line that the program prints. */
function start(args: string[], input: string | Buffer) {
  const child = keep(
    spawn(compileProcess('http-load'), args, { stdio: ['pipe', 'pipe', 'inherit'], env: {} }),
  );
  child.stdin!.end(input);
  const line = new Promise<string>((resolve, reject) => {
    createInterface({ input: child.stdout! }).once('line', resolve);
    child.once('exit', (code) => reject(new Error(`http-load ended with ${code}`)));
  });
  return { child, line };
}

/** Without a path of a Unix socket, it listens on a free port. */
export async function startHttpServer(
  response: Buffer,
  path?: string,
): Promise<{ port: number; stop(): Promise<void> }> {
  const { child, line } = start(['serve', ...(path === undefined ? [] : [path])], response);
  return { port: Number(await line), stop: () => end(child) };
}

export type HttpLoad = {
  /** A port of 127.0.0.1, or the path of a Unix socket. */
  address: number | string;
  method: string;
  path: string;
  headers: Record<string, string>;
  /** `#{26}` in it becomes a number of 26 digits that is never used twice. */
  body: string;
  callers: number;
  /** Requests of this initial period are not counted. */
  warmUpMs: number;
  ms: number;
};
export type HttpLoadResult = { requests: number; perSecond: number; p50Ms: number };

/** The arguments and the input of the program for one load. */
export function describeLoad(load: HttpLoad): { args: string[]; input: string } {
  const { address, method, path, body, callers, warmUpMs, ms } = load;
  const length = Buffer.byteLength(body.replace('#{26}', '0'.repeat(26)));
  const host = typeof address === 'number' ? `127.0.0.1:${address}` : '127.0.0.1';
  const headers = Object.entries({
    host,
    ...load.headers,
    'content-type': 'application/json',
    'content-length': String(length),
  });
  const lines = headers.map(([name, value]) => `${name}: ${value}\r\n`).join('');
  const args = ['drive', ...[address, callers, warmUpMs, ms].map(String)];
  return { args, input: `${method} ${path} HTTP/1.1\r\n${lines}\r\n${body}` };
}

export async function driveHttp(load: HttpLoad): Promise<HttpLoadResult> {
  const { args, input } = describeLoad(load);
  return JSON.parse(await start(args, input).line) as HttpLoadResult;
}
