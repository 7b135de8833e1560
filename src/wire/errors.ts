// Defines every fault that crosses a boundary: its hint, whether a retry can help, its HTTP and exit
// status. A fault crosses every link unchanged. Decisions (allow, ask, deny) are values, not
// faults; bugs are asserts and reach callers only as `internal`.

type Row = { http: number; exit: number; retry: boolean; hint: string };

export const FAULTS = {
  bad_request: {
    http: 400,
    exit: 2,
    retry: false,
    hint: 'Correct the named field and send it again.',
  },
  bad_json: { http: 400, exit: 2, retry: false, hint: 'Send one JSON document in valid UTF-8.' },
  too_deep: { http: 400, exit: 2, retry: false, hint: 'Nest arrays and objects less deeply.' },
  bad_usage: { http: 400, exit: 2, retry: false, hint: 'See --help for the right form.' },
  unauthenticated: {
    http: 401,
    exit: 3,
    retry: false,
    hint: "Use this state directory's operator key (STATE/operator.key).",
  },
  forbidden_caller: {
    http: 403,
    exit: 3,
    retry: false,
    hint: 'Call it as one of the callers that docs/api.md lists for this route.',
  },
  forbidden_origin: {
    http: 403,
    exit: 3,
    retry: false,
    hint: 'Call from this host, without a foreign Host or Origin header.',
  },
  denied: {
    http: 403,
    exit: 3,
    retry: false,
    hint: 'Do without it, or ask a person to change the rule.',
  },
  not_found: {
    http: 404,
    exit: 5,
    retry: false,
    hint: 'List what exists, and use one of those names or ids.',
  },
  no_such_route: {
    http: 404,
    exit: 2,
    retry: false,
    hint: 'Use one of the routes in docs/api.md.',
  },
  method_not_allowed: {
    http: 405,
    exit: 2,
    retry: false,
    hint: 'Use one of the methods in the Allow header.',
  },
  conflict: {
    http: 409,
    exit: 1,
    retry: false,
    hint: 'Read the current state, then decide again.',
  },
  stale_fence: {
    http: 409,
    exit: 1,
    retry: false,
    hint: 'Stop: a newer activation holds this run.',
  },
  ended: {
    http: 409,
    exit: 1,
    retry: false,
    hint: 'Retry it as a new task: agentctl task retry ID.',
  },
  cycle: {
    http: 409,
    exit: 2,
    retry: false,
    hint: 'Remove one of the dependencies in the cycle.',
  },
  idempotency_mismatch: {
    http: 409,
    exit: 1,
    retry: false,
    hint: 'Use a new Idempotency-Key for a different request.',
  },
  replay_differs: {
    http: 409,
    exit: 1,
    retry: false,
    hint: 'Repeat the call exactly as recorded, or use a new call_id.',
  },
  agent_paused: {
    http: 409,
    exit: 1,
    retry: false,
    hint: 'Resume the agent first: agentctl resume NAME.',
  },
  halted: { http: 409, exit: 1, retry: true, hint: 'Lift the halt first: agentctl unhalt.' },
  too_large: {
    http: 413,
    exit: 2,
    retry: false,
    hint: 'Send less, or store it as an artifact and refer to it.',
  },
  unsupported_media: {
    http: 415,
    exit: 2,
    retry: false,
    hint: 'Send Content-Type: application/json.',
  },
  bad_output: {
    http: 502,
    exit: 70,
    retry: false,
    hint: 'The service returned an invalid response; see its log.',
  },
  breaker: {
    http: 429,
    exit: 7,
    retry: false,
    hint: 'Change the approach or end the task: the run made no progress.',
  },
  budget: { http: 402, exit: 7, retry: false, hint: 'Raise the budget, or wait until it renews.' },
  limit: {
    http: 429,
    exit: 7,
    retry: false,
    hint: 'Finish the task, or create one with higher limits.',
  },
  rate_limited: {
    http: 429,
    exit: 1,
    retry: true,
    hint: 'Wait for retry_after_ms, then try again.',
  },
  overloaded: {
    http: 503,
    exit: 1,
    retry: true,
    hint: 'Try again in a few seconds: the queue is full.',
  },
  unavailable: {
    http: 503,
    exit: 6,
    retry: true,
    hint: 'The service is temporarily unavailable; try again later.',
  },
  unreachable: {
    http: 502,
    exit: 1,
    retry: false,
    hint: 'Check the host name and port; the server may be down.',
  },
  runtime_down: { http: 503, exit: 6, retry: true, hint: 'Start the runtime: agentctl up.' },
  stopping: {
    http: 503,
    exit: 6,
    retry: true,
    hint: 'Try again when the runtime is up again: it is shutting down.',
  },
  audit_unavailable: {
    http: 503,
    exit: 1,
    retry: true,
    hint: 'Actions are refused while they cannot be recorded; check auditd-ai.',
  },
  storage_full: {
    http: 507,
    exit: 1,
    retry: true,
    hint: "Free space on the state directory's disk.",
  },
  storage_broken: {
    http: 500,
    exit: 70,
    retry: false,
    hint: 'Check the disk (dmesg lists its errors); restore damaged files from a backup.',
  },
  deadline: {
    http: 504,
    exit: 1,
    retry: true,
    hint: 'Retry; with the same Idempotency-Key or call_id nothing is done twice.',
  },
  canceled: { http: 409, exit: 1, retry: false, hint: 'The task or call was canceled.' },
  provider_auth: {
    http: 502,
    exit: 1,
    retry: false,
    hint: "Check the provider's key: agentctl model test NAME.",
  },
  provider_refused: {
    http: 502,
    exit: 1,
    retry: false,
    hint: 'Correct the request; the message quotes the provider.',
  },
  provider_down: {
    http: 502,
    exit: 1,
    retry: true,
    hint: 'Try again later, or configure a fallback route.',
  },
  provider_malformed: {
    http: 502,
    exit: 1,
    retry: true,
    hint: 'The provider returned an invalid response; try again, or use another provider.',
  },
  context_too_long: {
    http: 400,
    exit: 7,
    retry: false,
    hint: 'Send fewer tokens, or use a model with a larger window.',
  },
  data_not_allowed: {
    http: 403,
    exit: 3,
    retry: false,
    hint: 'Use a provider that is allowed to see data with this label.',
  },
  bad_config: { http: 500, exit: 78, retry: false, hint: 'Correct the file at the named line.' },
  bad_manifest: {
    http: 400,
    exit: 78,
    retry: false,
    hint: 'Correct the manifest at the named line.',
  },
  state_in_use: {
    http: 409,
    exit: 1,
    retry: false,
    hint: 'Use or stop the runtime that holds it, or choose another --state.',
  },
  state_newer: {
    http: 500,
    exit: 78,
    retry: false,
    hint: 'Use the newer agentd that wrote it, or choose another --state.',
  },
  level_unavailable: {
    http: 409,
    exit: 1,
    retry: false,
    hint: 'Run agentctl doctor to see which levels this host supports, and why.',
  },
  sandbox_refused: {
    http: 500,
    exit: 1,
    retry: false,
    hint: "Run agentctl doctor, and check sandboxd's log.",
  },
  path_too_long: { http: 400, exit: 78, retry: false, hint: 'Use a shorter XDG_RUNTIME_DIR.' },
  log_damaged: {
    http: 500,
    exit: 1,
    retry: false,
    hint: 'Keep the directory unchanged and compare it with a backup.',
  },
  internal: {
    http: 500,
    exit: 70,
    retry: false,
    hint: 'Report this bug; the log has the details under the reference.',
  },
} as const satisfies Record<string, Row>;

export type FaultCode = keyof typeof FAULTS;

/** The form of a fault on the wire: `{"error": {...}}`. */
export type FaultBody = {
  code: FaultCode;
  message: string;
  hint: string;
  retry: boolean;
  retry_after_ms?: number | undefined;
  details?: Record<string, unknown> | undefined;
};

export type FaultExtra = {
  hint?: string | undefined;
  retryAfterMs?: number | undefined;
  details?: Record<string, unknown> | undefined;
  cause?: unknown;
};

export class Fault extends Error {
  override name = 'Fault';
  code: FaultCode;
  hint: string;
  retryAfterMs: number | undefined;
  details: Record<string, unknown> | undefined;

  constructor(code: FaultCode, message: string, extra: FaultExtra = {}) {
    super(message, extra.cause === undefined ? undefined : { cause: extra.cause });
    this.code = code;
    this.hint = extra.hint ?? FAULTS[code].hint;
    this.retryAfterMs = extra.retryAfterMs;
    this.details = extra.details;
  }

  get http(): number {
    return FAULTS[this.code].http;
  }

  get retry(): boolean {
    return FAULTS[this.code].retry;
  }

  toBody(): FaultBody {
    return {
      code: this.code,
      message: this.message,
      hint: this.hint,
      retry: this.retry,
      ...(this.retryAfterMs === undefined ? {} : { retry_after_ms: this.retryAfterMs }),
      ...(this.details === undefined ? {} : { details: this.details }),
    };
  }
}

export function fault(code: FaultCode, message: string, extra?: FaultExtra): Fault {
  return new Fault(code, message, extra);
}

/** Former codes that peers of the previous release still send. */
const RENAMED_CODES = new Map<string | undefined, FaultCode>([['not_reachable', 'runtime_down']]);

/** Rebuilds a fault from its body. An unknown code, as from a newer peer, becomes `internal`. */
export function faultFromBody(body: unknown): Fault {
  const error = (body as { error?: Partial<FaultBody> } | null)?.error;
  const code = RENAMED_CODES.get(error?.code) ?? error?.code;
  const known = code !== undefined && code in FAULTS ? code : 'internal';
  return new Fault(known, error?.message ?? 'the response was an error without a message', {
    hint: error?.hint,
    retryAfterMs: error?.retry_after_ms,
    details: error?.details,
  });
}
