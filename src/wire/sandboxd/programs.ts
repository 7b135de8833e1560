// Programs of people in a run's box: how one is prepared, and the frames on the connection of the
// client that started it.
import * as z from 'zod';
import { BoxId, RunId } from '../primitives.ts';
import { route, routes } from '../route.ts';

const path = z
  .string()
  .regex(/^\/[^\0]*$/, 'must be an absolute path')
  .max(4_095);

/** A home that outlives the task: the same for all programs of an agent in one directory. */
export const HomeId = z.string().regex(/^home_[0-9a-f]{24}$/, 'must be the id of a home');

/** In the box, the host path of a program follows it. */
export const PROGRAMS_DIR = '/agentd/programs';
export const HostPaths = z.array(path).max(64);

const length = z.int().min(1).max(65_535);
const TerminalSize = z.strictObject({ cols: length, rows: length });

/** Paths are those inside the box. */
export const ProgramCommand = z.strictObject({
  argv: z.array(z.string().max(131_072)).min(1).max(1_023),
  env: z
    .record(
      z.string().regex(/^[A-Za-z_]\w*$/, 'must be the name of a variable'),
      z.string().max(131_072),
    )
    .optional(),
  /** Absent: the workspace. */
  cwd: path.optional(),
  /** Files and directories of the host that its box has read-only below `PROGRAMS_DIR`. */
  programs: HostPaths.optional(),
  /** Written below the home of its box, where there is no such file yet. */
  home_files: z
    .array(
      z.strictObject({
        path: z
          .string()
          .regex(/^(?!\/)[^\0]*$/, 'must be a path below the home')
          .max(1_000),
        content: z.string().max(100_000),
      }),
    )
    .max(16)
    .optional(),
  /** It runs on a terminal of this size instead of pipes. */
  terminal: TerminalSize.optional(),
});
export type ProgramCommand = z.infer<typeof ProgramCommand>;

/** A further command in the box of a program, with its environment. */
export const FurtherCommand = ProgramCommand.pick({
  argv: true,
  env: true,
  cwd: true,
  terminal: true,
});
export type FurtherCommand = z.infer<typeof FurtherCommand>;

/** Lets a client attach to one program, once. */
export const AttachToken = z.string().regex(/^[\w-]{43}$/, 'must be an attach token');

/** The protocol of an attached connection: frames as in `PROGRAM_FRAME`. */
export const PROGRAM_PROTOCOL = 'agentd-program';

/** Bodies are raw bytes if nothing else is stated. */
export const PROGRAM_FRAME = {
  // from the client
  stdin: 1,
  stdinEnd: 2,
  /** One byte: the number of a signal for the program. */
  signal: 3,
  /** Two numbers of two bytes, big endian: columns and rows of its terminal. */
  size: 4,
  // to the client
  stdout: 17,
  stderr: 18,
  /** Four bytes, big endian: this many bytes of standard input were passed on. */
  stdinAck: 19,
  /** One byte: the signal that stopped a program on a terminal; SIGCONT continues it. */
  stopped: 22,
  /** JSON of a CommandEnd; the last frame. */
  end: 20,
  /** JSON of a fault, instead of an end. */
  fault: 21,
} as const;

/** The client may have sent this many bytes of standard input that are not acknowledged. */
export const STDIN_WINDOW_BYTES = 262_144;
export const PROGRAM_FRAME_BYTES_MAX = 1_048_576;

export const programRoutes = routes({
  /** Prepares the program of a box. It starts when its client attaches. */
  startProgram: route({
    method: 'PUT',
    path: '/v1/boxes/{id}/program',
    callers: ['toold'],
    params: z.strictObject({ id: BoxId }),
    body: ProgramCommand,
    output: z.object({
      /** Identifies this sandboxd process, as for runners; the program never outlives it. */
      epoch: z.string(),
      token: AttachToken,
    }),
    bodySizeBytesMax: 8_000_000,
  }),
  attachProgram: route({
    method: 'POST',
    path: '/v1/sandboxes/programs/{id}/attach',
    callers: ['operator'],
    params: z.strictObject({ id: RunId }),
    body: z.strictObject({ token: AttachToken }),
    output: z.unknown(),
    upgrades: PROGRAM_PROTOCOL,
  }),
  /** Starts a command in the box of a program; it ends with its client, and with the box. */
  execProgram: route({
    method: 'POST',
    path: '/v1/sandboxes/programs/{id}/exec',
    callers: ['operator'],
    params: z.strictObject({ id: RunId }),
    body: FurtherCommand,
    output: z.unknown(),
    upgrades: PROGRAM_PROTOCOL,
    bodySizeBytesMax: 8_000_000,
  }),
  /** Removes the home that programs of an agent share, unless a box with it is open. */
  removeHome: route({
    method: 'DELETE',
    path: '/v1/sandboxes/homes/{id}',
    callers: ['operator'],
    params: z.strictObject({ id: HomeId }),
    output: z.object({
      /** False when there was none. */
      removed: z.boolean(),
      bytes: z.int(),
      entries: z.int(),
    }),
    streams: true,
  }),
});
