// sandboxd's section of agentd.yaml: who agents are on this host, where their files are, and what a
// box may take at most. Every field has a safe default, a unit and a limit.
import * as z from 'zod';

const path = z
  .string()
  .regex(/^\/[^\0\n]*$/, 'must be an absolute path')
  .max(4_095);
const id = z.int().min(1_000).max(4_294_000_000);
const mebibyte = 1_048_576;

export const sandboxdConfig = z.strictObject({
  /**
   * users: accounts of this host, spec.linuxUser of the manifest or agent-NAME. dynamic: a uid of
   * the range for each name, for ever. single: this user. auto: dynamic when root, else single.
   */
  identity: z.enum(['auto', 'users', 'dynamic', 'single']).default('auto'),
  /** The range for agents, or the one in which the accounts are. */
  uid_first: id.default(200_000),
  uid_last: id.default(265_535),
  /** The range for workspaces: the agents of one task tree share a group. */
  gid_first: id.default(300_000),
  gid_last: id.default(1_299_999),
  /** L1 only where this host gives no L2, and only as an ordinary user: it has the host's tree. */
  runner_level: z.enum(['L1', 'L2']).default('L2'),
  /** The runner's program; the one that was built with this sandboxd when absent. */
  runner: z.string().max(4_096).optional(),
  /** The program that serves the files of a box. Set by whoever starts the daemon. */
  boxfs: z.string().max(4_096).optional(),
  /** What one runner may take. */
  runner_memory_bytes: z
    .int()
    .min(64 * mebibyte)
    .default(1024 * mebibyte),
  runner_pids: z.int().min(16).max(4_096).default(64),
  /** Read-only in every tool box: the programs it may run, and what they need. */
  system_paths: z
    .array(path)
    .max(64)
    .default([
      '/usr',
      '/bin',
      '/sbin',
      '/lib',
      '/lib32',
      '/lib64',
      '/libx32',
      '/etc/alternatives',
      '/etc/ssl',
      '/etc/pki',
      '/etc/ca-certificates',
      '/etc/ld.so.cache',
      '/etc/localtime',
      '/etc/mime.types',
      '/etc/services',
    ]),
  /** Manifests may declare paths below these, and no others. */
  read_roots: z.array(path).max(32).default(['/srv', '/opt', '/usr/share', '/var/log']),
  write_roots: z.array(path).max(32).default(['/srv/workspaces']),
  /** Directories below these may be used in place as workspaces. */
  workspace_roots: z.array(path).max(32).default([]),
  /** Boxes at the same time, those of runners included. */
  boxes_max: z.int().min(1).max(4_096).default(512),
  /** What one tool box may take, where the agent's manifest says no less. */
  box_memory_bytes: z
    .int()
    .min(16 * mebibyte)
    .default(2048 * mebibyte),
  box_pids: z.int().min(4).max(4_194_304).default(512),
  /** All files of a box together: its workspace, its home, what else it may write. 0: no limit. */
  box_disk_bytes: z.int().min(0).default(10_737_418_240),
  file_bytes_max: z.int().min(mebibyte).default(4_294_967_296),
  /** So much of a disk is kept from agents; 0 keeps nothing. */
  disk_reserve_bytes: z.int().min(0).default(536_870_912),
  /** What one command may take, where the call says no less. */
  command_wall_ms: z.int().min(100).max(86_400_000).default(600_000),
  command_cpu_ms: z.int().min(100).max(86_400_000).default(600_000),
  command_output_bytes: z.int().min(1_024).max(67_108_864).default(8_388_608),
});
export type SandboxdConfig = z.output<typeof sandboxdConfig>;
