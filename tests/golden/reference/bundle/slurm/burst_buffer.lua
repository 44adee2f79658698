-- written by GpuCluster: Slurm calls these for jobs with #BB_LUA lines in their script. gpucluster_node/lustre/staging.py does the work.
--
-- slurm_bb_job_process, slurm_bb_pools and slurm_bb_paths run inside slurmctld, which waits for them: they must be quick.
-- The others run in a process of their own, as slurmctld's user.

local PROGRAM = "sudo -n /opt/gpucluster/bin/node-program lustre.staging"
local LOG = "/var/log/gpucluster/staging.log"

-- staging VERB WORD...: runs the program. Slurm shows the last line of its output as the error.
local function staging(verb, ...)
    local command = PROGRAM .. " " .. verb
    for _, word in ipairs({ ... }) do
        command = command .. " '" .. tostring(word):gsub("'", "'\\''") .. "'"
    end
    -- Lua 5.1 does not return a pipe's exit status
    local pipe = io.popen(command .. " 2>>" .. LOG .. "; echo \"status=$?\"")
    if not pipe then
        return slurm.ERROR, "the staging program cannot be started"
    end
    local last_line, status = "", nil
    for line in pipe:lines() do
        status = line:match("^status=(%d+)$") or status
        if not line:match("^status=%d+$") then last_line = line end
    end
    pipe:close()
    if status == "0" then return slurm.SUCCESS end
    if last_line == "" then last_line = "the staging program exited with code " .. tostring(status) .. ", see " .. LOG end
    return slurm.ERROR, last_line
end

-- At submission: sbatch prints an error of this function.
function slurm_bb_job_process(job_script, uid, gid, job_info)
    local script = io.open(job_script)
    if not script then return slurm.SUCCESS end
    for line in script:lines() do
        line = line:gsub("%s+$", "")
        if line ~= "" and line:sub(1, 1) ~= "#" then break end
        local rest = line:match("^#BB_LUA%s+(.*)$") or (line:match("^#BB_LUA") and "")
        local word, path = (rest or ""):match("^([a-z_]+) path=(/.*)$")
        local known = word == "stage_in" or word == "stage_out" or word == "use" or word == "folder"
        if rest and not (known and path) then
            script:close()
            return slurm.ERROR, "#BB_LUA takes stage_in, stage_out, use or folder, and path=/…; got: " .. rest
        end
    end
    script:close()
    return slurm.SUCCESS
end

function slurm_bb_pools() return slurm.SUCCESS end

function slurm_bb_setup(job_id, uid, gid, pool, bb_size, job_script, job_info) return slurm.SUCCESS end

-- While the job is pending, before it has nodes.
function slurm_bb_data_in(job_id, job_script, uid, gid, job_info)
    return staging("data-in", job_id, job_script, uid, gid)
end

function slurm_bb_test_data_in(job_id, job_script, uid, gid, job_info) return slurm.SUCCESS, "" end

function slurm_bb_real_size(job_id, uid, gid, job_info) return slurm.SUCCESS end

function slurm_bb_paths(job_id, job_script, path_file, uid, gid, job_info) return slurm.SUCCESS end

function slurm_bb_pre_run(job_id, job_script, uid, gid, job_info) return slurm.SUCCESS end

function slurm_bb_post_run(job_id, job_script, uid, gid, job_info) return slurm.SUCCESS end

-- After the job's end, when its nodes are free. The last 8 bits of job_state are the base state, and 0 is PENDING: a requeued job
-- exports only after its last run, and an error here would hold it.
function slurm_bb_data_out(job_id, job_script, uid, gid, job_info)
    if job_info and job_info.job_state and job_info.job_state % 256 == 0 then return slurm.SUCCESS end
    return staging("data-out", job_id, job_script, uid, gid)
end

function slurm_bb_test_data_out(job_id, job_script, uid, gid, job_info) return slurm.SUCCESS, "" end

-- The last call for a job, whether it completed or failed. A requeued job gets this call too.
function slurm_bb_job_teardown(job_id, job_script, hurry, uid, gid, job_info)
    return staging("teardown", job_id, job_script, uid, gid)
end

function slurm_bb_get_status(uid, gid, ...) return slurm.SUCCESS, "`gpucluster why JOB` shows the progress of a job's data\n" end
