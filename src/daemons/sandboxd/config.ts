// sandboxd's section of agentd.yaml: agents' identities on this host, their files, and the limits
// of a box. Every field has a safe default, a unit and a limit.
import * as z from 'zod';

const path = z
  .string()
  .regex(/^\/[^\0\n]*$/, 'must be an absolute path')
  .max(4_095);
const id = z.int().min(1_000).max(4_294_000_000);
const mebibyte = 1_048_576;

export const sandboxdConfig = z.strictObject({
  /**
   * users: accounts of this host, spec.linuxUser of the manifest or agent-NAME. dynamic: a
   * permanent uid of the range for each name. single: this user. auto: dynamic when root, else
   * single.
   */
  identity: z.enum(['auto', 'users', 'dynamic', 'single']).default('auto'),
  /** The uid range of agents; for `users`, accounts must be in it. */
  uid_first: id.default(200_000),
  uid_last: id.default(265_535),
  /**
   * The gid range of workspaces: the agents of one task tree share a group. It is assigned again
   * when the tree is deleted and no file has it.
   */
  gid_first: id.default(300_000),
  gid_last: id.default(1_299_999),
  /** The runner's program; by default the one built with this sandboxd. */
  runner: z.string().max(4_096).optional(),
  /** The boxfs program. Set by the process that starts the daemon. */
  boxfs: z.string().max(4_096).optional(),
  /** Limits of one runner. */
  runner_memory_bytes: z
    .int()
    .min(64 * mebibyte)
    .default(1024 * mebibyte),
  runner_pids: z.int().min(16).max(4_096).default(64),
  /** Runners that wait for the next run of agents that worked lately; 0: none. */
  runner_spares: z.int().min(0).max(16).default(3),
  /** An unused spare is ended after this time. */
  runner_spare_idle_ms: z.int().min(1_000).max(3_600_000).default(20_000),
  /** Read-only in every tool box: programs and their dependencies. */
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
  /**
   * Directories below these may be used in place as workspaces, and no others. Empty: those that
   * people granted.
   */
  workspace_roots: z.array(path).max(32).default([]),
  /** Maximum number of concurrent boxes, runners included. */
  boxes_max: z.int().min(1).max(4_096).default(512),
  /** Limits of one tool box; the manifest can only lower them. */
  box_memory_bytes: z
    .int()
    .min(16 * mebibyte)
    .default(2048 * mebibyte),
  box_pids: z.int().min(4).max(4_194_304).default(512),
  /** All writable files of a box together: workspace, home, declared paths. 0: no limit. */
  box_disk_bytes: z.int().min(0).default(10_737_418_240),
  /** A workspace that has to be copied may have this much; where overlays work, none is. */
  layer_copy_bytes_max: z
    .int()
    .min(mebibyte)
    .max(1024 * 1024 * mebibyte)
    .default(2048 * mebibyte),
  file_bytes_max: z.int().min(mebibyte).default(4_294_967_296),
  /** Free space of a disk that agents cannot use; 0: none. */
  disk_reserve_bytes: z.int().min(0).default(536_870_912),
  /** Limits of one command; the call can only lower them. */
  command_wall_ms: z.int().min(100).max(86_400_000).default(600_000),
  command_cpu_ms: z.int().min(100).max(86_400_000).default(600_000),
  command_output_bytes: z.int().min(1_024).max(67_108_864).default(8_388_608),
});
export type SandboxdConfig = z.output<typeof sandboxdConfig>;
