// Measures programs of people in boxes: an empty one beside agentctl status, what a terminal prints
// beside the same command on a terminal without a box, and a request through the relay of a box.
import { execFile } from 'node:child_process';
import { chmodSync, copyFileSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { MODES, TestWarden } from '../test/escape/support/warden.ts';
import { freshDir, ROOT, startRuntime, type TestRuntime } from '../test/support/runtime.ts';
import { timeProcess } from './bare-start.ts';
import { startProcess } from './children.ts';
import { type Benchmark, type Figure, seeRounds } from './figure.ts';
import {
  compileProcess,
  describeLoad,
  driveHttp,
  type HttpLoad,
  type HttpLoadResult,
  startHttpServer,
} from './http-load.ts';
import { type Compared, compare } from './rounds.ts';

const ROUNDS = 5;
const STARTS = { rounds: 1, turnsPerRound: 12 };
const START_MS_MAX = 20;
const WARM_UP = 3;
const STREAMS = { rounds: ROUNDS, turnsPerRound: 4 };
const STREAM_MIB = 32;
const LINE = 'A line of output as programs print it, with about as many characters.';
const RELAY_ROUNDS = 8;
const RELAY_MS_MAX = 0.2;
const RELAY_PORT = 8_080;
const RESPONSE = 'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}';

const AGENTCTL = join(ROOT, 'bin', 'agentctl');

const envOf = (runtime: TestRuntime): Record<string, string> => ({
  ...runtime.env,
  HOME: process.env.HOME ?? '',
  AGENTD_STATE: runtime.stateDir,
  TERM: 'xterm',
});

async function emptyProgram(runtime: TestRuntime): Promise<Figure[]> {
  const env = envOf(runtime);
  const program = () => timeProcess(AGENTCTL, ['box', 'run', '--', 'true'], env);
  const status = () => timeProcess(AGENTCTL, ['status'], env);
  for (let i = 0; i < WARM_UP; i++) for (const one of [program, status]) await one();
  const rounds: Compared[] = [];
  for (let i = 0; i < ROUNDS; i++) rounds.push(await compare(STARTS, program, status));
  const see = (side: keyof Compared) => seeRounds(rounds.map((one) => one[side].value));
  return [
    {
      name: 'box run -- true adds to agentctl status, p50',
      unit: 'ms',
      own: seeRounds(rounds.map(({ own, peer }) => own.value - peer.value)),
      bar: { of: 'value', max: START_MS_MAX },
    },
    {
      name: 'box run -- true, p50',
      unit: 'ms',
      own: see('own'),
      peer: { name: 'agentctl status', ...see('peer') },
      ratio: see('ratio'),
    },
  ];
}

async function terminalBytes(runtime: TestRuntime): Promise<Figure> {
  const env = envOf(runtime);
  const reader = compileProcess('terminal-reader');
  const bytes = STREAM_MIB * 1_048_576;
  const command = ['sh', '-c', `yes '${LINE}' | head -c ${bytes}`];
  const mibPerS = async (words: string[]): Promise<number> => {
    const { stdout } = await promisify(execFile)(reader, words, { env });
    const seen = JSON.parse(stdout) as { bytes: number; ms: number };
    // A terminal ends lines with another byte each.
    if (seen.bytes < bytes) throw new Error(`${seen.bytes} of ${bytes} bytes came`);
    return STREAM_MIB / (seen.ms / 1_000);
  };
  const own = () => mibPerS([AGENTCTL, 'box', 'run', '--', ...command]);
  const peer = () => mibPerS(command);
  for (const one of [own, peer]) await one();
  const seen = await compare(STREAMS, own, peer);
  return {
    name: 'output of a program on a terminal',
    unit: 'MiB/s',
    own: seen.own,
    peer: { name: 'a terminal without us', ...seen.peer },
    ratio: seen.ratio,
    bar: { of: 'ratio', min: 0.5 },
  };
}

/** The median of a request from a box, less that of one to the same socket from outside. */
async function relayFigure(mode: (typeof MODES)[number]): Promise<Figure> {
  const dir = freshDir();
  const warden = new TestWarden({ mode, build: 'plain' });
  mkdirSync(join(warden.dir, 'egress'));
  copyFileSync(compileProcess('http-load'), join(warden.dir, 'bin', 'http-load'));
  await warden.start();
  const socket = join(warden.dir, 'egress', 'server.sock');
  const relaySocket = join(dir, 'relay.sock');
  const [server, behindPeer, peer] = [
    await startHttpServer(Buffer.from(RESPONSE), socket),
    await startHttpServer(Buffer.from(RESPONSE)),
    await startProcess(new URL('./processes/plain-relay.ts', import.meta.url)),
  ];
  // The relay of a box has a user of its own.
  chmodSync(socket, 0o777);
  await peer.ask({ socketPath: relaySocket, port: behindPeer.port });
  const load = (address: HttpLoad['address']): HttpLoad => ({
    address,
    method: 'POST',
    path: '/v1/x',
    headers: {},
    body: '{"number":"#{26}"}',
    callers: 1,
    warmUpMs: 200,
    ms: 800,
  });
  const fromBox = async (): Promise<number> => {
    const { args, input } = describeLoad(load(RELAY_PORT));
    const relays = [{ port: RELAY_PORT, socket }];
    const outcome = await warden.run(['/opt/http-load', ...args], { relays }, input);
    if (outcome.kind !== 'exit' || outcome.code !== 0)
      throw new Error(`the box said ${JSON.stringify(outcome)}`);
    return (JSON.parse(outcome.stdout) as HttpLoadResult).p50Ms;
  };
  const p50 = async (address: HttpLoad['address']) => (await driveHttp(load(address))).p50Ms;
  try {
    const [owns, peers]: [number[], number[]] = [[], []];
    for (let round = 0; round < RELAY_ROUNDS; round++) {
      owns.push((await fromBox()) - (await p50(socket)));
      peers.push((await p50(relaySocket)) - (await p50(behindPeer.port)));
    }
    return {
      name: `the relay of a box adds to a request, ${mode === 'root' ? 'as root' : 'as an ordinary user'}, p50`,
      unit: 'ms',
      own: seeRounds(owns),
      peer: { name: 'a plain relay in Node', ...seeRounds(peers) },
      bar: { of: 'value', max: RELAY_MS_MAX },
    };
  } finally {
    for (const one of [server, behindPeer, peer]) await one.stop();
    await warden.stop();
  }
}

async function run(): Promise<Figure[]> {
  const runtime = await startRuntime();
  const figures: Figure[] = [];
  try {
    figures.push(...(await emptyProgram(runtime)), await terminalBytes(runtime));
  } finally {
    await runtime.remove();
  }
  for (const mode of MODES) figures.push(await relayFigure(mode));
  return figures;
}

export const boxRun: Benchmark = {
  name: 'box-run',
  about: 'programs of people in boxes: their start, their terminal, their way to the model',
  run,
};
