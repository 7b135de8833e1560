// Encodes warden plans and requests: the TypeScript twin of native/warden/plan.h.

export const GUARD = {
  landlock: 1 << 0,
  seccomp: 1 << 1,
  caps: 1 << 2,
  noNewPrivs: 1 << 3,
  netns: 1 << 4,
  pidns: 1 << 5,
  ipcns: 1 << 6,
  readonly: 1 << 7,
  protect: 1 << 8,
  usernsLimit: 1 << 9,
  session: 1 << 10,
  descriptors: 1 << 11,
  utsns: 1 << 12,
  procSubset: 1 << 13,
  userns: 1 << 14,
  probes: 1 << 15,
  dumpable: 1 << 16,
  silent: 1 << 17,
} as const;
export type Guard = keyof typeof GUARD;

const KIND = {
  ro: 1,
  rw: 2,
  tmpfs: 3,
  symlink: 4,
  mask: 5,
  protectFile: 6,
  protectDir: 7,
  layer: 8,
} as const;

export type Bind = {
  kind: keyof typeof KIND;
  /** A layer's handle in decimal, for kind `layer`. */
  src?: string;
  dst: string;
  sizeKib?: number;
  noexec?: boolean;
  /** `ro` and `rw`: where the warden is root, the owner of src appears as the plan's user. */
  owned?: boolean;
  /** `layer` only. */
  readonly?: boolean;
};

const FLAG = { noexec: 1, owned: 2, readonly: 4 } as const;

export type PlanLimits = {
  wallMs: number;
  cpuMs: number;
  memoryBytes: number;
  pids: number;
  outputBytes: number;
  nofile: number;
  fsizeBytes: number;
  graceMs: number;
  /** CPU quota of a whole box in thousandths of a processor; 0: unlimited. */
  cpuMilli: number;
};

export type TerminalSize = { cols: number; rows: number };
export type Relay = { port: number; socket: string };
const EGRESS_PORT = 3128;

export type WardenPlan = {
  id: string;
  level: number;
  profile: 'tool' | 'runner';
  uid: number;
  gid: number;
  groups?: number[];
  args: string[];
  env?: Record<string, string>;
  cwd: string;
  binds: Bind[];
  limits: PlanLimits;
  user?: string;
  /** The Unix socket to which 127.0.0.1:3128 of the box is relayed. */
  egress?: string;
  /** Other ports of the box's loopback, from 1024 on, each relayed to a Unix socket of the host. */
  relays?: Relay[];
  /** Level 2: its commands can run on terminals, and its processes can open more. */
  terminals?: boolean;
  /** Level 2: its /proc has the entries about the host that many programs read. */
  procEntries?: boolean;
  /**
   * Boxes for agentd's own programs, opened without a command: where no mount can map the owner of
   * its owned binds, it has that owner's rights on their files.
   */
  ownerRights?: boolean;
  /** The command runs on a terminal instead of pipes; `stdout` is all of its output. */
  pty?: TerminalSize;
  guardsOff?: Guard[];
};

/** A box without a command: commands are started in it later. */
export type BoxPlan = Omit<WardenPlan, 'args' | 'env' | 'cwd' | 'pty'>;

/** A command in an open box; `pty` only if that has terminals. */
export type BoxCommand = Pick<WardenPlan, 'args' | 'env' | 'cwd' | 'pty' | 'limits'> & {
  box: bigint;
};

function field(tag: number, value: Buffer): Buffer {
  const head = Buffer.alloc(6);
  head.writeUInt16LE(tag, 0);
  head.writeUInt32LE(value.length, 2);
  return Buffer.concat([head, value]);
}
const text = (tag: number, value: string) => field(tag, Buffer.from(`${value}\0`));
const byte = (tag: number, value: number) => field(tag, Buffer.from([value]));
function number(tag: number, value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value >>> 0);
  return field(tag, bytes);
}

function bindField(bind: Bind): Buffer {
  const head = Buffer.alloc(8);
  head[0] = KIND[bind.kind];
  head[1] =
    (bind.noexec ? FLAG.noexec : 0) |
    (bind.owned ? FLAG.owned : 0) |
    (bind.readonly ? FLAG.readonly : 0);
  head.writeUInt32LE(bind.sizeKib ?? 0, 4);
  return field(10, Buffer.concat([head, Buffer.from(`${bind.src ?? ''}\0${bind.dst}\0`)]));
}

function relayField({ port, socket }: Relay): Buffer {
  const head = Buffer.alloc(2);
  head.writeUInt16LE(port);
  return field(15, Buffer.concat([head, Buffer.from(`${socket}\0`)]));
}

function limitFields(limits: PlanLimits): Buffer[] {
  const order = [
    limits.wallMs,
    limits.cpuMs,
    limits.memoryBytes,
    limits.pids,
    limits.outputBytes,
    limits.nofile,
    limits.fsizeBytes,
    limits.graceMs,
    limits.cpuMilli,
  ];
  return order.map((value, at) => {
    const bytes = Buffer.alloc(9);
    bytes[0] = at + 1;
    bytes.writeBigUInt64LE(BigInt(value), 1);
    return field(11, bytes);
  });
}

export function encodeWinsize({ cols, rows }: TerminalSize): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt16LE(cols, 0);
  bytes.writeUInt16LE(rows, 2);
  return bytes;
}

const commandFields = (command: Pick<WardenPlan, 'args' | 'env' | 'cwd' | 'pty'>): Buffer[] => [
  ...command.args.map((arg) => text(7, arg)),
  ...Object.entries(command.env ?? {}).map(([name, value]) => text(8, `${name}=${value}`)),
  text(9, command.cwd),
  ...(command.pty === undefined ? [] : [field(16, encodeWinsize(command.pty))]),
];

export function encodePlan(plan: WardenPlan): Buffer {
  return Buffer.concat([encodeBoxPlan(plan), ...commandFields(plan)]);
}

export function encodeBoxPlan(plan: BoxPlan): Buffer {
  const guards = (plan.guardsOff ?? []).reduce((bits, name) => bits | GUARD[name], 0);
  return Buffer.concat([
    text(1, plan.id),
    byte(2, plan.level),
    byte(3, plan.profile === 'runner' ? 2 : 1),
    number(4, plan.uid),
    number(5, plan.gid),
    ...(plan.groups ?? []).map((group) => number(6, group)),
    ...plan.binds.map(bindField),
    ...limitFields(plan.limits),
    ...(plan.user === undefined ? [] : [text(12, plan.user)]),
    ...(guards === 0 ? [] : [number(13, guards)]),
    ...(plan.egress === undefined ? [] : [relayField({ port: EGRESS_PORT, socket: plan.egress })]),
    ...(plan.relays ?? []).map(relayField),
    ...(plan.terminals === true ? [byte(17, 1)] : []),
    ...(plan.procEntries === true ? [byte(18, 1)] : []),
    ...(plan.ownerRights === true ? [byte(19, 1)] : []),
  ]);
}

/** Chown: a directory to one user. Share: a tree to a group (uid null). */
export type DirectoryOwner = { path: string; uid: number | null; gid: number };

export function encodeChown({ path, uid, gid }: DirectoryOwner): Buffer {
  const head = Buffer.alloc(12);
  head[0] = uid === null ? 2 : 1;
  head.writeUInt32LE(uid ?? 0, 4);
  head.writeUInt32LE(gid, 8);
  return Buffer.concat([head, Buffer.from(`${path}\0`)]);
}

export function encodeMeasure(path: string, gid: number): Buffer {
  const head = Buffer.alloc(12);
  head[0] = 3;
  head.writeUInt32LE(gid, 8);
  return Buffer.concat([head, Buffer.from(`${path}\0`)]);
}

function encodePathOperation(operation: number, path: string): Buffer {
  const head = Buffer.alloc(12);
  head[0] = operation;
  return Buffer.concat([head, Buffer.from(`${path}\0`)]);
}

export const encodeDelete = (path: string): Buffer => encodePathOperation(4, path);
export const encodeNewest = (path: string): Buffer => encodePathOperation(5, path);

export type LayerRequest = {
  uid: number;
  gid: number;
  /** The directory that boxes see. */
  lower: string;
  /** `upper` directories of earlier layers over it, oldest first. */
  sealed: string[];
  /** Has the directories `upper` and `work`, which belong to uid. */
  dir: string;
  /** `upper` has a copy of `lower`, and is what boxes see. */
  isCopy?: boolean;
};

export function encodeLayer({ uid, gid, lower, sealed, dir, isCopy }: LayerRequest): Buffer {
  const head = Buffer.alloc(12);
  head.writeUInt32LE(uid, 0);
  head.writeUInt32LE(gid, 4);
  head[8] = sealed.length;
  head[9] = isCopy === true ? 1 : 0;
  const paths = [lower, ...sealed, dir].map((path) => `${path}\0`).join('');
  return Buffer.concat([head, Buffer.from(paths)]);
}

/** Asks whether a grant allows a path, or removes the grants of exactly that path. */
export const encodeGrant = (op: 'isGranted' | 'revoke', path: string): Buffer =>
  encodePathOperation(op === 'isGranted' ? 6 : 7, path);

export function encodeBoxCommand(command: BoxCommand): Buffer {
  const box = Buffer.alloc(8);
  box.writeBigUInt64LE(command.box);
  return Buffer.concat([field(14, box), ...commandFields(command), ...limitFields(command.limits)]);
}
