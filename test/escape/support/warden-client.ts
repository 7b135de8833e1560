// A client of the warden's socket: one connection, one box or command at a time. Collects the
// output and resolves with the exit, or with the refusal.
import { connect, type Socket } from 'node:net';
import {
  type BoxCommand,
  type BoxPlan,
  encodeBoxCommand,
  encodeBoxPlan,
  encodePlan,
  type WardenPlan,
} from '../../../src/daemons/sandboxd/adapters/plan.ts';

export const MAGIC = 0x44525741;
export const FRAME = {
  plan: 1,
  stdin: 2,
  stdinEnd: 3,
  signal: 4,
  kill: 5,
  features: 6,
  open: 7,
  exec: 8,
  close: 9,
  layer: 11,
} as const;
const STDIN_WINDOW = 64 * 1024;

const ENDED = [
  'itself',
  'wall',
  'cpu',
  'memory',
  'output',
  'pids',
  'halt',
  'client',
  'warden',
  'lost',
  'box',
  'seal',
] as const;
const REFUSED = [
  '',
  'frame',
  'plan',
  'bounds',
  'host',
  'halt',
  'overload',
  'setup',
  'probe',
  'exec',
  'caller',
  'box',
] as const;

export type BoxExit = {
  kind: 'exit';
  endedBy: (typeof ENDED)[number];
  signal: number;
  code: number;
  pidsMet: boolean;
  wallUs: number;
  cpuUs: number;
  stdout: string;
  stderr: string;
};
export type PlanRefusal = { kind: 'refused'; code: string; message: string; hint: string };
export type Lost = { kind: 'lost'; stdout: string; stderr: string };
export type BoxOutcome = BoxExit | PlanRefusal | Lost;
export type OpenBoxRequest = {
  kind: 'opened';
  box: bigint;
  pid: number;
  ended: Promise<BoxOutcome>;
};

export function frame(type: number, body: Buffer = Buffer.alloc(0)): Buffer {
  const head = Buffer.alloc(12);
  head.writeUInt32LE(MAGIC, 0);
  head[4] = 1;
  head[5] = type;
  head.writeUInt32LE(body.length, 8);
  return Buffer.concat([head, body]);
}

export class WardenClient {
  readonly socket: Socket;
  #in: Buffer = Buffer.alloc(0);
  #out: Buffer[] = [];
  #err: Buffer[] = [];
  #settle: ((outcome: BoxOutcome) => void) | undefined;
  #features: ((text: string) => void) | undefined;
  #stdin: Buffer = Buffer.alloc(0);
  #window = STDIN_WINDOW;
  #opened: ((box: bigint, pid: number) => void) | undefined;
  onStarted: (pid: number) => void = () => {};
  onOutput: (text: string) => void = () => {};

  private constructor(socket: Socket) {
    this.socket = socket;
    socket.on('data', (bytes: Buffer) => this.#take(bytes));
    socket.on('error', () => {});
    socket.on('close', () => this.#end({ kind: 'lost', ...this.#texts() }));
  }

  static open(path: string): Promise<WardenClient> {
    return new Promise((resolve, reject) => {
      const socket = connect(path);
      socket.once('error', reject);
      socket.once('connect', () => resolve(new WardenClient(socket)));
    });
  }

  // With stdin null the box waits for feed().
  run(plan: WardenPlan, stdin: string | null = ''): Promise<BoxOutcome> {
    return this.send(frame(FRAME.plan, encodePlan(plan)), stdin);
  }

  // Holds a box open until close(), or until it ends by itself.
  async open(plan: BoxPlan): Promise<OpenBoxRequest | BoxOutcome> {
    const ended = this.send(frame(FRAME.open, encodeBoxPlan(plan)), null);
    const opened = new Promise<OpenBoxRequest>((resolve) => {
      this.#opened = (box, pid) => resolve({ kind: 'opened', box, pid, ended });
    });
    return Promise.race([opened, ended]);
  }

  exec(command: BoxCommand, stdin: string | null = ''): Promise<BoxOutcome> {
    return this.send(frame(FRAME.exec, encodeBoxCommand(command)), stdin);
  }

  closeBox(): void {
    this.socket.write(frame(FRAME.close));
  }

  // Sends arbitrary bytes, for the tests that violate the protocol.
  send(bytes: Buffer, stdin: string | null = ''): Promise<BoxOutcome> {
    this.#out = [];
    this.#err = [];
    this.#window = STDIN_WINDOW;
    const outcome = new Promise<BoxOutcome>((resolve) => {
      this.#settle = resolve;
    });
    this.socket.write(bytes);
    if (stdin !== null) this.feed(stdin);
    return outcome;
  }

  feed(stdin: string): void {
    this.#stdin = Buffer.from(stdin);
    this.#feed();
  }

  features(): Promise<Record<string, string>> {
    return new Promise((resolve) => {
      this.#features = (lines) =>
        resolve(
          Object.fromEntries(
            lines
              .split('\n')
              .filter((line) => line !== '')
              .map((line) => [line.split(' ', 1)[0] ?? '', line.slice(line.indexOf(' ') + 1)]),
          ),
        );
      this.socket.write(frame(FRAME.features));
    });
  }

  signal(number: number): void {
    this.socket.write(frame(FRAME.signal, Buffer.from([number])));
  }
  kill(): void {
    this.socket.write(frame(FRAME.kill));
  }
  close(): void {
    this.socket.destroy();
  }

  #texts() {
    return {
      stdout: Buffer.concat(this.#out).toString(),
      stderr: Buffer.concat(this.#err).toString(),
    };
  }

  #feed(): void {
    while (this.#stdin.length > 0 && this.#window > 0) {
      const part = this.#stdin.subarray(0, Math.min(this.#window, 16 * 1024));
      this.#stdin = this.#stdin.subarray(part.length);
      this.#window -= part.length;
      this.socket.write(frame(FRAME.stdin, part));
    }
    if (this.#stdin.length === 0) this.socket.write(frame(FRAME.stdinEnd));
  }

  #end(outcome: BoxOutcome): void {
    const settle = this.#settle;
    this.#settle = undefined;
    settle?.(outcome);
  }

  #take(bytes: Buffer): void {
    this.#in = Buffer.concat([this.#in, bytes]);
    while (this.#in.length >= 12) {
      const size = this.#in.readUInt32LE(8);
      if (this.#in.length < 12 + size) return;
      const body = this.#in.subarray(12, 12 + size);
      const type = this.#in[5] ?? 0;
      this.#in = this.#in.subarray(12 + size);
      this.#frame(type, body);
    }
  }

  #frame(type: number, body: Buffer): void {
    if (type === 0x81) this.onStarted(body.readUInt32LE(0));
    else if (type === 0x82 || type === 0x83) {
      (type === 0x82 ? this.#out : this.#err).push(Buffer.from(body));
      this.onOutput(body.toString());
    } else if (type === 0x84) this.#end(this.#exit(body));
    else if (type === 0x85) this.#end(refusal(body));
    else if (type === 0x86) {
      this.#window += body.readUInt32LE(0);
      if (this.#stdin.length > 0) this.#feed();
    } else if (type === 0x87) this.#features?.(body.toString());
    else if (type === 0x88) this.#opened?.(body.readBigUInt64LE(0), body.readUInt32LE(8));
  }

  #exit(body: Buffer): BoxExit {
    const at = (offset: number) => Number(body.readBigUInt64LE(offset));
    return {
      kind: 'exit',
      endedBy: ENDED[body[0] ?? 0] ?? 'lost',
      signal: body[1] ?? 0,
      code: body[2] ?? 0,
      pidsMet: body[3] === 1,
      wallUs: at(8),
      cpuUs: at(16) + at(24),
      ...this.#texts(),
    };
  }
}

function refusal(body: Buffer): PlanRefusal {
  const [message = '', hint = ''] = body.subarray(2).toString().split('\0');
  return { kind: 'refused', code: REFUSED[body[0] ?? 0] ?? 'unknown', message, hint };
}
