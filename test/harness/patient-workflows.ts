/**
 * Interceptor of scripted jobs. First attempts of steps may take a minute, because on a busy machine
 * anything can take more than three seconds. The submits of jobs with the model `impatient` keep
 * their limit.
 */
import { workflowInfo, type WorkflowInterceptorsFactory } from '@temporalio/workflow';
import { searchAttributes } from '../../domain/job-contract.ts';

export const interceptors: WorkflowInterceptorsFactory = () => ({
  outbound: [
    {
      scheduleLocalActivity(input, next) {
        const model = workflowInfo().typedSearchAttributes.get(searchAttributes.model);
        if (model === 'impatient' && input.activityType === 'submit') return next(input);
        const options = { ...input.options, scheduleToCloseTimeout: '1 minute' as const };
        return next({ ...input, options });
      },
    },
  ],
});
