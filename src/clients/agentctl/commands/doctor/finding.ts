// The result of one doctor check.

export type DoctorFinding = {
  name: string;
  /** `no`: not available here, which is not a problem. */
  status: 'ok' | 'no' | 'warn' | 'fail';
  message: string;
  /** The command that fixes it. */
  fix?: string;
};

export const ok = (name: string, message: string): DoctorFinding => ({
  name,
  status: 'ok',
  message,
});
export const no = (name: string, message: string): DoctorFinding => ({
  name,
  status: 'no',
  message,
});
export const warn = (name: string, message: string, fix?: string): DoctorFinding => ({
  name,
  status: 'warn',
  message,
  ...(fix === undefined ? {} : { fix }),
});
export const fail = (name: string, message: string, fix?: string): DoctorFinding => ({
  ...warn(name, message, fix),
  status: 'fail',
});
