"""The names of the parameters in Slurm's configuration files, as the parser of Slurm 23.11.4 has them.

src/common/read_config.c (slurm_conf_options, _nodename_options, _partition_options), src/interfaces/cgroup.c and
src/interfaces/gres.c.
"""

# ruff: noqa: SIM905  as lists of quoted words they would be three pages
SLURM_CONF = """
    AccountingStorageTRES AccountingStorageEnforce AccountingStorageExternalHost AccountingStorageHost
    AccountingStorageBackupHost AccountingStorageLoc AccountingStorageParameters AccountingStoragePass
    AccountingStoragePort AccountingStorageType AccountingStorageUser AccountingStoreFlags
    AccountingStoreJobComment AcctGatherEnergyType AcctGatherNodeFreq AcctGatherProfileType
    AcctGatherInterconnectType AcctGatherInfinibandType AcctGatherFilesystemType AllowSpecResourcesUsage
    AuthAltTypes AuthAltParameters AuthInfo AuthType BackupAddr BackupController BatchStartTimeout BcastExclude
    BcastParameters BurstBufferParameters BurstBufferType CoreSpecPlugin CliFilterPlugins ClusterName
    CommunicationParameters CompleteWait ControlAddr ControlMachine CpuFreqDef CpuFreqGovernors CredType
    CryptoType DebugFlags DefMemPerCPU DefMemPerNode DependencyParameters DisableRootJobs EioTimeout
    EnforcePartLimits Epilog EpilogMsgTime EpilogSlurmctld ExtSensorsType ExtSensorsFreq FairShareDampeningFactor
    FastSchedule FederationParameters FirstJobId GetEnvTimeout GresTypes GroupUpdateForce GroupUpdateTime
    GpuFreqDef HealthCheckInterval HealthCheckNodeState HealthCheckProgram InteractiveStepOptions InactiveLimit
    JobAcctGatherType JobAcctGatherFrequency JobAcctGatherParams JobCompHost JobCompLoc JobCompParams JobCompPass
    JobCompPort JobCompType JobContainerType JobCompUser JobCredentialPrivateKey JobCredentialPublicCertificate
    JobFileAppend JobRequeue JobSubmitPlugins KeepAliveTime KillOnBadExit KillWait LaunchParameters LaunchType
    Licenses LogTimeFormat MailDomain MailProg MaxArraySize MaxBatchRequeue MaxDBDMsgs MaxJobCount MaxNodeCount
    MaxJobId MaxMemPerCPU MaxMemPerNode MaxStepCount MaxTasksPerNode MCSParameters MCSPlugin MessageTimeout
    MinJobAge MpiDefault MpiParams NodeFeaturesPlugins OverTimeLimit PluginDir PlugStackConfig PowerParameters
    PowerPlugin PreemptMode PreemptParameters PreemptType PreemptExemptTime PrEpParameters PrEpPlugins
    PriorityDecayHalfLife PriorityCalcPeriod PriorityFavorSmall PriorityMaxAge PriorityParameters
    PriorityUsageResetPeriod PriorityType PriorityFlags PrioritySiteFactorParameters PrioritySiteFactorPlugin
    PriorityWeightAge PriorityWeightAssoc PriorityWeightFairshare PriorityWeightJobSize PriorityWeightPartition
    PriorityWeightQOS PriorityWeightTRES PrivateData ProctrackType Prolog PrologSlurmctld PrologEpilogTimeout
    PrologFlags PropagatePrioProcess PropagateResourceLimitsExcept PropagateResourceLimits RebootProgram
    ReconfigFlags RequeueExit RequeueExitHold ResumeFailProgram ResumeProgram ResumeRate ResumeTimeout ResvEpilog
    ResvOverRun ResvProlog ReturnToService RoutePlugin SallocDefaultCommand SbcastParameters SchedulerAuth
    SchedulerParameters SchedulerTimeSlice SchedulerType ScronParameters SelectType SelectTypeParameters SlurmUser
    SlurmdUser SlurmctldAddr SlurmctldDebug SlurmctldLogFile SlurmctldPidFile SlurmctldPort
    SlurmctldPrimaryOffProg SlurmctldPrimaryOnProg SlurmctldSyslogDebug SlurmctldTimeout SlurmctldParameters
    SlurmdDebug SlurmdLogFile SlurmdParameters SlurmdPidFile SlurmdPort SlurmdSpoolDir SlurmdSyslogDebug
    SlurmdTimeout SlurmSchedLogFile SlurmSchedLogLevel SrunEpilog SrunProlog SrunPortRange StateSaveLocation
    SuspendExcNodes SuspendExcParts SuspendExcStates SuspendProgram SuspendRate SuspendTime SuspendTimeout
    SwitchParameters SwitchType TaskEpilog TaskProlog TaskPlugin TaskPluginParam TCPTimeout TmpFS TopologyParam
    TopologyPlugin TrackWCKey TreeWidth UnkillableStepProgram UnkillableStepTimeout UsePAM VSizeFactor WaitTime
    X11Parameters DownNodes FrontendName NodeName NodeSet PartitionName SlurmctldHost
""".split()

NODE = """
    BcastAddr Boards CoreSpecCount CoresPerSocket CPUs CPUSpecList CpuBind Feature Features Gres MemSpecLimit
    NodeAddr NodeHostname Port Procs RealMemory Reason Sockets SocketsPerBoard State ThreadsPerCore TmpDisk
    TRESWeights Weight
""".split()

PARTITION = """
    AllocNodes AllowAccounts AllowGroups AllowQos Alternate CpuBind DefMemPerCPU DefMemPerNode Default DefaultTime
    DenyAccounts DenyQos DisableRootJobs ExclusiveUser GraceTime Hidden LLN MaxCPUsPerNode MaxCPUsPerSocket
    MaxMemPerCPU MaxMemPerNode MaxTime MaxNodes MinNodes Nodes OverSubscribe OverTimeLimit PowerDownOnIdle
    PreemptMode Priority PriorityJobFactor PriorityTier QOS RootOnly ReqResv ResumeTimeout SelectTypeParameters
    Shared State SuspendTime SuspendTimeout TRESBillingWeights
""".split()

CGROUP_CONF = """
    CgroupAutomount CgroupMountpoint CgroupReleaseAgentDir ConstrainCores ConstrainRAMSpace AllowedRAMSpace
    MaxRAMPercent MinRAMSpace ConstrainSwapSpace AllowedSwapSpace MaxSwapPercent MemoryLimitEnforcement
    MemoryLimitThreshold ConstrainDevices AllowedDevicesFile MemorySwappiness CgroupPlugin IgnoreSystemd
    IgnoreSystemdOnFailure EnableControllers SignalChildrenProcesses
""".split()

CGROUP_BOOLEANS = """
    CgroupAutomount ConstrainCores ConstrainRAMSpace ConstrainSwapSpace MemoryLimitEnforcement ConstrainDevices
    IgnoreSystemd IgnoreSystemdOnFailure EnableControllers SignalChildrenProcesses
""".split()

CGROUP_FLOATS = ["AllowedRAMSpace", "MaxRAMPercent", "AllowedSwapSpace", "MaxSwapPercent", "MemoryLimitThreshold"]
CGROUP_INTEGERS = ["MinRAMSpace", "MemorySwappiness"]

GRES_CONF = """
    AutoDetect Count CPUs Cores File Files Flags Link Links MultipleFiles Name NodeName Type
""".split()
